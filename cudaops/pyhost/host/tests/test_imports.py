import importlib.util
import os
import sys
import tempfile
import unittest
import unittest.mock

from aicplan_host import fresh, imports


class ModuleFileTest(unittest.TestCase):
    def test_folder_without_init_in_a_package_that_is_not_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            inner = os.path.join(folder, "unloaded", "plain", "deep")
            os.makedirs(inner)
            for path in (os.path.join(folder, "unloaded", "__init__.py"), os.path.join(inner, "kernel.py")):
                open(path, "w").close()
            sys.path.insert(0, folder)
            try:
                self.assertEqual(imports._path("unloaded.plain.deep.kernel"), os.path.join(inner, "kernel.py"))
                self.assertIsNone(imports._path("unloaded.plain.none.kernel"))
                self.assertNotIn("unloaded", sys.modules)
            finally:
                sys.path.remove(folder)


class LoadedTest(unittest.TestCase):
    """Modules that were loaded while an op was at work, by their paths."""

    def test_only_files_of_the_plan_or_of_no_distribution_count(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(sys.modules):
            files = {
                "plan/steps.py": True,  # of the plan
                "helpers/plain.py": True,  # on Python's path, in no distribution
                "site/big/_vendor/odd.py": False,  # of a distribution, under a name of its own
                "cache/A1/__launcher.py": False,  # generated
            }
            for name in files:
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "w") as f:
                    f.write("value = 1\n")
            info = os.path.join(folder, "site", "big-1.0.dist-info")
            os.makedirs(info)
            for name, text in (("METADATA", "Metadata-Version: 2.1\nName: big\nVersion: 1.0\n"), ("RECORD", "big/_vendor/odd.py,,\n")):
                with open(os.path.join(info, name), "w") as f:
                    f.write(text)
            path = [os.path.join(folder, "site"), os.path.join(folder, "helpers"), *sys.path]
            with (
                unittest.mock.patch.object(sys, "path", path),
                unittest.mock.patch.object(fresh, "_roots", [os.path.join(folder, "plan")]),
                unittest.mock.patch.object(imports, "_DISTRIBUTIONS", {}),
            ):
                code = imports.Imports()
                for name in files:
                    at = os.path.join(folder, name)
                    spec = importlib.util.spec_from_file_location(os.path.basename(at)[: -len(".py")], at)
                    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(sys.modules[spec.name])
                self.assertTrue(code.grown("op"))
                found = [f["path"] for f in code.of("op", [])["files"]]
            self.assertEqual(found, sorted(os.path.join(folder, name) for name, counts in files.items() if counts))


class VersionsTest(unittest.TestCase):
    def test_what_a_package_has_vendored_is_not_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            vendor = os.path.join(folder, "tools", "_vendor")
            for at, name, requires in ((folder, "big", "toml"), (folder, "tools", ""), (vendor, "toml", "")):
                info = os.path.join(at, name + "-1.0.dist-info")
                os.makedirs(info)
                with open(os.path.join(info, "METADATA"), "w") as f:
                    f.write("Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name)
                    f.write("Requires-Dist: %s ; python_version < '3'\n" % requires if requires else "")
            open(os.path.join(folder, "tools", "__init__.py"), "w").close()
            for path in ([folder], [vendor, folder]):
                with unittest.mock.patch.object(sys, "path", [*path, *sys.path]):
                    self.assertEqual(imports._versions({"big"}), {"big": "1.0"})


if __name__ == "__main__":
    unittest.main()
