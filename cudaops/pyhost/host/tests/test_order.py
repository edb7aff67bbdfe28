import ast
import glob
import os
import re
import unittest

import aicplan_host


class OrderTest(unittest.TestCase):
    def test_modules_import_from_those_above_them(self):
        order = re.findall(r"^    (\w+) {2,}", aicplan_host.__doc__, re.MULTILINE)
        folder = os.path.dirname(aicplan_host.__file__)
        modules = {os.path.basename(p)[:-3]: p for p in glob.glob(os.path.join(folder, "*.py"))}
        del modules["__init__"]
        self.assertEqual(sorted(order), sorted(modules))
        for name, path in modules.items():
            with open(path, encoding="utf-8") as f:
                tree = ast.parse(f.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.level:
                    self.assertLess(order.index(node.module), order.index(name), "%s imports %s" % (name, node.module))


if __name__ == "__main__":
    unittest.main()
