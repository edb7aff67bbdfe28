import os
import sys
import tempfile
import unittest

from aicplan_host import imports


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


if __name__ == "__main__":
    unittest.main()
