"""Ops of collectors that measure in several processes at once, one for each GPU."""

import ast
import contextlib
import importlib
import json
import os
import shutil
import sys
import time

from .collectors import CollectorOp
from .defaults import TorchDefaults
from .errors import RESOURCE, UNSUPPORTED, HostError
from .ports import kept_port
from .source import parsed

# Rank numbers as torchrun, Open MPI, other MPIs and srun give them.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
START = "import os, sys; sys.path.append(os.environ['AICPLAN_HOST_FILE']); from aicplan_host.ranks import rank_main; rank_main()"
GRACE = 3  # seconds that the other ranks get once one has failed
LAST = 64 << 10  # bytes of a rank's output that a failure keeps


class RankFailed(RuntimeError):
    """A rank ended with an error; the others were ended, too."""


class RanksOp(CollectorOp):
    """An op of a collector that wants a process for each GPU. The worker starts
    them, waits, and takes the rows that rank 0 logs. It imports the collector in
    none of its own: a rank ends as it likes."""

    def load(self):
        if self._run is not None:
            return
        name = self.located()
        run = self.binding["run"]
        for node in parsed(os.path.join(self.host.root, *name.split(".")) + ".py").body:
            if isinstance(node, ast.FunctionDef) and node.name == run:
                break
        else:
            raise HostError("op %s: %s has no function %s" % (self.name, name, run))
        self._names = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
        self._defaults = TorchDefaults()
        self._run = self._start

    def run(self, case):
        self._case = case
        return super().run(case)

    def _count(self):
        spec = self.binding["ranks"]
        count = self._column(spec, self._case["params"]) if isinstance(spec, (str, dict)) else spec
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise HostError("op %s: ranks is %r; it is a whole number from 1" % (self.name, count))
        gpus = self.host.options.get("gpus")
        if gpus is not None and count > gpus:
            raise HostError("op %s: %d ranks need a GPU each, and this runtime has %d" % (self.name, count, gpus), UNSUPPORTED)
        return count

    def _start(self, *args, **keywords):
        count = self._count()
        call = {
            "root": self.host.root, "module": self.module_name(), "run": self.binding["run"], "args": args,
            "keywords": {k: v for k, v in keywords.items() if k in self._names and k != "device"},
        }
        env = dict(os.environ, AICPLAN_RANK_CALL=json.dumps(call))
        devices = self.host.options.get("devices")
        if devices:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
        program = [sys.executable, "-u", "-c", START]
        launcher = self.binding.get("launcher")
        logs = os.path.join(self.host.workdir, "ranks")
        shutil.rmtree(logs, ignore_errors=True)
        os.mkdir(logs)
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, logs, ignore_errors=True)
            if launcher:
                commands = [([word.replace("{ranks}", str(count)) for word in launcher] + program, env)]
            else:
                port = str(stack.enter_context(kept_port()))
                common = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                commands = [(program, dict(env, RANK=str(i), LOCAL_RANK=str(i), **common)) for i in range(count)]
            self._wait(commands, logs, launcher)

    def _wait(self, commands, logs, launcher):
        import subprocess

        running, ends = {}, {}
        try:
            for rank, (argv, env) in enumerate(commands):
                with open(os.path.join(logs, "%d.log" % rank), "wb") as out:
                    try:
                        running[rank] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env)
                    except OSError as err:
                        raise HostError("op %s: %s cannot be started: %s" % (self.name, argv[0], err.strerror or err), RESOURCE) from None
            failed = None
            while running:
                for rank, process in list(running.items()):
                    code = process.poll()
                    if code is not None:
                        ends[rank] = code
                        del running[rank]
                        if code and failed is None:
                            failed = (rank, code, time.monotonic() + GRACE)
                if failed and time.monotonic() > failed[2]:
                    break
                time.sleep(0.02)
        finally:
            for process in running.values():
                process.kill()
            for process in running.values():
                process.wait()
            for rank in range(len(commands)):
                self._keep_log(rank, os.path.join(logs, "%d.log" % rank), any(ends.values()))
        if failed:
            rank, code, _ = failed
            # What went wrong first is in the log of the rank that ended first.
            with open(os.path.join(logs, "%d.log" % rank), encoding="utf-8", errors="replace") as f:
                lines = [line.rstrip() for line in f if line.strip()]
            who = "the ranks" if launcher else "rank %d of %d" % (rank, len(commands))
            how = "by signal %d" % -code if code < 0 else "with exit status %d" % code
            raise RankFailed("%s ended %s: %s" % (who, how, lines[-1] if lines else "no output"))

    def _keep_log(self, rank, path, failed):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            f.seek(0, os.SEEK_END)
            f.seek(max(0, f.tell() - LAST))
            text = f.read().decode("utf-8", "replace")
            print("-- rank %d --\n%s" % (rank, text), flush=True)
            if failed:
                self.host.bench.attach("rank-%d.log" % rank, text, "text/plain")


def rank_main():
    """What a rank runs: the collector's function, as its own script calls it."""
    call = json.loads(os.environ.pop("AICPLAN_RANK_CALL"))
    rank = next((os.environ[name] for name in RANK_VARIABLES if os.environ.get(name)), "0")
    shim = sys.modules.get("collector.helper")
    if shim is None:
        sys.exit("rank %s does not have the worker's helper; see the lines above" % rank)
    if rank != "0":
        # Collectives have one time for all ranks: the rows of rank 0 are taken.
        shim._sink.spool = os.path.join(shim._sink.spool, "rank-" + rank)
        os.makedirs(shim._sink.spool, exist_ok=True)
    function = getattr(importlib.import_module(call["module"]), call["run"])
    function(*call["args"], **call["keywords"])
