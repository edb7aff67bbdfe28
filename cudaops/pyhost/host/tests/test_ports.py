import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

from aicplan_host import ports

HOST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What torch does with an address: one listener per port, for as long as the group lives.
C10D = """
import os, re, socket
held = []
def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name=""):
    if store is not None:
        return "store"
    if init_method is None or init_method.startswith("env://"):
        port = int(os.environ["MASTER_PORT"])
    else:
        port = int(re.search(r":(\\d+)", init_method).group(1))
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
    except OSError as err:
        raise RuntimeError("The server socket has failed to listen: EADDRINUSE (%s)" % err)
    s.listen()
    held.append(s)
    return port
"""

# How upstream's collectors start one rank.
FIXED = """
import os
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT=str(taken))
import torch.distributed
print(torch.distributed.init_process_group(backend="nccl", init_method="env://", world_size=-1, rank=-1))
"""


class PortsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        package = os.path.join(self.path, "torch", "distributed")
        os.makedirs(package)
        for name, text in (("../__init__.py", ""), ("__init__.py", "from .distributed_c10d import *\n"), ("distributed_c10d.py", C10D)):
            with open(os.path.join(package, name), "w", encoding="ascii") as f:
                f.write(text)

    def run_python(self, text):
        """What a process prints in which `taken` is a port that is in use."""
        head = """
            import socket, sys
            sys.path[:0] = [%r, %r]
            from aicplan_host.ports import own_ports, free_port
            busy = socket.socket()
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            taken = busy.getsockname()[1]
        """ % (HOST, self.path)
        env = {k: v for k, v in os.environ.items() if k not in ("MASTER_PORT", "WORLD_SIZE", "RANK")}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)], capture_output=True, text=True, env=env, check=False
        )
        return done.returncode, (done.stdout + done.stderr).strip()

    def test_a_taken_port_fails_without_it(self):
        code, said = self.run_python(FIXED)
        self.assertEqual(code, 1)
        self.assertIn("EADDRINUSE", said)

    def test_before_and_after_torch_is_imported(self):
        for prepare in ("own_ports()", "import torch.distributed\nown_ports()\nown_ports()"):
            code, said = self.run_python(prepare + FIXED + "assert int(os.environ['MASTER_PORT']) != taken")
            self.assertEqual(code, 0, said)

    def test_an_address_in_the_call(self):
        code, said = self.run_python("""
            own_ports()
            import torch.distributed as d
            for method in ("tcp://127.0.0.1:%d" % taken, "tcp://127.0.0.1:%d?world_size=1&rank=0" % taken):
                print(d.init_process_group("nccl", method, None, 1, 0))
        """)
        self.assertEqual(code, 0, said)

    def test_groups_of_several_ranks_keep_their_port(self):
        code, said = self.run_python("""
            import os
            own_ports()
            import torch.distributed as d
            def from_environment(port):
                os.environ["MASTER_PORT"] = str(port)
                return d.init_process_group("nccl", world_size=2, rank=0)
            def from_call(port):
                return d.init_process_group("nccl", "tcp://127.0.0.1:%d" % port, world_size=2, rank=0)
            for begin in (from_environment, from_call):
                for tries in range(20):
                    port = free_port()
                    try:
                        assert begin(port) == port
                        break
                    except RuntimeError:
                        if tries == 19:
                            raise
                        # Another program of this machine was quicker.
            assert d.init_process_group("nccl", world_size=1, rank=0, store=object()) == "store"
            try:
                d.init_process_group("nccl", "tcp://127.0.0.1:%d" % taken, world_size=2, rank=0)
            except RuntimeError as err:
                print(err)
        """)
        self.assertEqual(code, 0, said)
        self.assertIn("EADDRINUSE", said)

    def test_a_port_that_goes_meanwhile_is_replaced(self):
        code, said = self.run_python("""
            import aicplan_host.ports as ports
            ports.own_ports()
            import torch.distributed as d
            real, asked = ports.free_port, []
            def first_taken():
                asked.append(1)
                return taken if len(asked) < 3 else real()
            ports.free_port = first_taken
            d.init_process_group("nccl", world_size=1, rank=0, init_method="tcp://127.0.0.1:1")
            ports.free_port = lambda: taken
            try:
                d.init_process_group("nccl", world_size=1, rank=0, init_method="tcp://127.0.0.1:1")
            except RuntimeError as err:
                print(len(asked), err)
        """)
        self.assertEqual(code, 0, said)
        self.assertTrue(said.startswith("3 ") and "EADDRINUSE" in said, said)


@unittest.skipIf(ports._kernel_ports() - ports.FIRST < ports.TRIES, "the kernel keeps no ports back")
class KeptPorts(unittest.TestCase):
    def only(self, port):
        """No other port is there to be kept."""
        return mock.patch.multiple(ports, FIRST=port, _kernel_ports=lambda: port + 1)

    def test_the_kernel_gives_it_to_nobody(self):
        with ports.kept_port() as port:
            self.assertTrue(ports.FIRST <= port < ports._kernel_ports(), port)
            socket.create_server(("127.0.0.1", port)).close()  # as its first rank does

    def test_it_is_given_once(self):
        with ports.kept_port() as port, self.only(port), ports.kept_port() as other:
            self.assertNotEqual(other, port)

    def test_one_in_use_is_not_given(self):
        for address in ("127.0.0.1", ""):
            with socket.create_server((address, 0)) as busy:
                port = busy.getsockname()[1]
                with self.only(port), ports.kept_port() as other:
                    self.assertNotEqual(other, port)


if __name__ == "__main__":
    unittest.main()
