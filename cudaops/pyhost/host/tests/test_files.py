import fcntl
import os
import shutil
import tempfile
import time
import unittest
from unittest import mock

from aicplan_host import fresh, spool, workdir
from aicplan_host.errors import HostError
from aicplan_host.source import find_ops, load_file


class FilesTest(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = held.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_ops_are_found_without_running_them(self):
        self.write("a.py", "raise SystemExit\ndef gemm(m, bench): pass\ndef _hidden(bench): pass\ndef other(m): pass\n")
        self.assertEqual(list(find_ops([self.folder])), ["gemm"])
        self.write("b.py", "def gemm(*, bench): pass\n")
        with self.assertRaisesRegex(HostError, "op gemm is in"):
            find_ops([self.folder])
        with self.assertRaisesRegex(HostError, "line 1 is no Python"):
            find_ops([self.write("c.py", "def (")])

    def test_a_file_that_fails_can_be_loaded_again(self):
        path = self.write("late.py", "import aicplan_absent_module\n")
        with self.assertRaises(ImportError):
            load_file(path)
        self.write("late.py", "value = 4\n")
        self.assertEqual(load_file(path).value, 4)

    def test_looking_for_modules_imports_none(self):
        fresh.read_source_of([self.folder])
        importing = AssertionError("imported in the middle of an import")
        with mock.patch("sysconfig.get_path", side_effect=importing), mock.patch("builtins.__import__", side_effect=importing):
            self.assertIsNotNone(fresh._hook(self.folder))
            self.assertFalse(fresh.owned(os.path.dirname(os.__file__)))

    def test_rows_of_other_processes(self):
        sink = spool.Sink(self.folder)
        sink.add({"latency": 0.5}, "/somewhere/gemm_perf.txt")
        with open(os.path.join(self.folder, "1.jsonl"), "w") as f:
            f.write('["x_perf.txt", {"latency": 1}]\n["x_perf.txt", {"lat')
        self.assertEqual(spool.read_spool(self.folder), [("x_perf.txt", {"latency": 1}), ("gemm_perf.txt", {"latency": 0.5})])
        self.write("own_perf.txt", "framework,version,device,m,latency\nVLLM,0.24.0,H200,8,0.25\n")
        own = ("own_perf.txt", {"m": 8, "latency": 0.25, "logged_version": "0.24.0"})
        self.assertEqual(spool.read_perf_files(self.folder), ([own], []))
        self.write("own_perf.txt", "version,kernel_source,tag,m,latency\n1.10,nan,007,8,0.25\n1.10,007,1_0,,1\n")
        first, second = [row for _, row in spool.read_perf_files(self.folder)[0]]
        self.assertEqual(first, {"kernel_source": "nan", "tag": "007", "m": 8, "latency": 0.25, "logged_version": "1.10"})
        self.assertEqual(second, {"kernel_source": "007", "tag": "1_0", "m": None, "latency": 1.0, "logged_version": "1.10"})

    def test_lines_that_are_no_rows_leave_the_others(self):
        self.write(
            "own_perf.txt",
            'm,tag,latency\n1,a,0.5\n2,b\n\n3,"c,0.5\n4,d,0.25\nm,tag,latency\n5,e,1,2\n6,f,fast\n7,"g\nh",2\n8,i,1',
        )
        rows, faults = spool.read_perf_files(self.folder)
        self.assertEqual([(row["m"], row["tag"], row["latency"]) for _, row in rows], [(1, "a", 0.5), (4, "d", 0.25), (7, "g\nh", 2.0)])
        self.assertEqual(
            faults,
            [
                "own_perf.txt:3: it has 2 fields and the header has 3: '2,b'",
                "own_perf.txt:5: it has 2 fields and the header has 3: '3,\"c,0.5'",
                "own_perf.txt:8: it has 4 fields and the header has 3: '5,e,1,2'",
                "own_perf.txt:9: latency is 'fast', which is no number",
            ],
        )

    def test_late_rows_are_counted(self):
        sink = spool.Sink()
        sink.add({"latency": 1}, "a")
        sink.open = True
        sink.add({"latency": 2}, "a")
        self.assertEqual((sink.late, sink.rows), (1, [("a", {"latency": 2})]))

    def test_folders_of_dead_workers_go(self):
        def folder(name):
            path = os.path.join(self.folder, name)
            os.mkdir(path)
            fd = os.open(os.path.join(path, "lock"), os.O_CREAT | os.O_RDWR)
            self.addCleanup(os.close, fd)
            return path, fd

        dead, _ = folder("aicplan-worker-w0-abcdefgh")
        alive, fd = folder("aicplan-worker-w1-abcdefgh")
        new, _ = folder("aicplan-new-abcdefgh")
        fcntl.flock(fd, fcntl.LOCK_EX)
        empty = os.path.join(self.folder, "aicplan-docs-12345678")  # another program's, not used yet
        os.mkdir(empty)
        foreign, _ = folder("aicplan-publish-12345678")
        workdir.sweep_workdirs(self.folder)
        self.assertEqual([os.path.exists(p) for p in (dead, alive, new, empty, foreign)], [False, True, True, True, True])

    def test_links_are_not_followed(self):
        victim = os.path.join(self.folder, "state")
        os.mkdir(victim)
        for name in ("lock", "rows"):
            with open(os.path.join(victim, name), "w"):
                pass
        link = os.path.join(self.folder, "aicplan-worker-w0-abcdefgh")
        os.symlink(victim, link)
        workdir.sweep_workdirs(self.folder)
        self.assertEqual(sorted(os.listdir(victim)), ["lock", "rows"])
        self.assertTrue(os.path.islink(link))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder to another user")
    def test_folders_of_other_users_stay(self):
        path = os.path.join(self.folder, "aicplan-worker-w0-abcdefgh")
        os.mkdir(path)
        with open(os.path.join(path, "lock"), "w"):
            pass
        os.chown(path, 65534, 65534)
        workdir.sweep_workdirs(self.folder)
        self.assertTrue(os.path.exists(path))

    def test_folders_that_never_got_their_name_go(self):
        def folder(name, locked, age):
            path = os.path.join(self.folder, name)
            os.mkdir(path)
            if locked is not None:
                fd = os.open(os.path.join(path, "lock"), os.O_CREAT | os.O_RDWR)
                self.addCleanup(os.close, fd)
                if locked:
                    fcntl.flock(fd, fcntl.LOCK_EX)
            then = time.time() - age
            os.utime(path, (then, then))
            return path

        old = 2 * workdir.UNNAMED_AGE
        gone = [folder("aicplan-new-aaaaaaaa", False, old), folder("aicplan-new-bbbbbbbb", None, old)]
        stay = [
            folder("aicplan-new-cccccccc", False, 0),
            folder("aicplan-new-dddddddd", None, 0),
            folder("aicplan-new-eeeeeeee", True, old),
            folder("aicplan-new-docs-123456", False, old),  # the engine's
        ]
        workdir.sweep_workdirs(self.folder)
        self.assertEqual([p for p in gone + stay if os.path.exists(p)], stay)

    def test_a_folder_of_its_own_wherever_that_is(self):
        base = os.path.join(self.folder, "aicplan-new-things")
        os.mkdir(base)
        folder, lock = workdir.own_folder(base, "w0")
        self.addCleanup(os.close, lock)
        self.assertEqual(os.listdir(base), [os.path.basename(folder)])
        self.assertRegex(folder, "/aicplan-new-things/aicplan-worker-w0-.{8}$")

    def test_temporary_files_have_a_folder_where_sockets_fit(self):
        short = tempfile.mkdtemp(prefix="t", dir="/tmp")
        self.addCleanup(shutil.rmtree, short)
        long = os.path.join(short, "l" * 70)
        os.mkdir(long)
        with mock.patch.dict(os.environ, {"TMPDIR": self.folder}), mock.patch.object(tempfile, "tempdir", self.folder):
            workdir.own_temporary(long)
            self.assertEqual((os.environ["TMPDIR"], tempfile.gettempdir(), os.listdir(long)), (self.folder, self.folder, []))
            os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
            workdir.own_temporary(short)
            own = os.path.join(short, "tmp")
            self.assertEqual((os.environ["TMPDIR"], tempfile.gettempdir()), (own, own))
            self.assertTrue(os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(os.path.join(self.folder, "torchinductor_")))


if __name__ == "__main__":
    unittest.main()
