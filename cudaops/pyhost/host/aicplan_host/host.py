"""One worker: its ops, its device and the cases that it works on."""

import collections
import contextlib
import dataclasses
import functools
import gc
import importlib
import importlib.util
import json
import os
import platform
import random
import re
import sys
import tempfile
import time
import traceback

from .attaching import Attachments
from .child import VISIBLE
from .collectors import CollectorOp
from .defaults import TorchDefaults, undisturbed
from .deferring import Deferred
from .digest import sha256
from .environment import Nvml, PlainDevice, cpu_name, package_version
from .errors import COLLECTOR_BUG, FRAMEWORK_BUG, RESOURCE, UNSUPPORTED, AtOnce, Crowded, HostError, Restart, Unsupported, clip
from .filling import Filling
from .fresh import read_source_of
from .functions import FunctionOp
from .helper import hook_helper
from .imports import Imports
from .offering import Offers, Relay
from .ports import own_ports
from .preparing import Bench
from .ranks import RanksOp
from .reads import reads_of
from .source import find_ops
from .spool import Sink
from .tuning import Tuning
from .workdir import SITE, archive, own_folder, own_temporary, remove_workdir

_FATAL = re.compile(
    r"illegal memory access|unspecified launch failure|device-side assert|misaligned address|illegal instruction"
    r"|uncorrectable ECC|launch timed out|CUDA\w{0,40}[ _](?s:.{0,200})context is destroyed|CUBLAS_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"out of memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)


@dataclasses.dataclass
class End:
    """How a case ends. failure holds the fields of its error, or is None."""

    case: dict
    op: object
    rows: object  # a list of them, or a Deferred
    failure: dict
    seconds: float
    attachments: dict


def environment_of(op):
    return {k: str(v) for k, v in op.binding.get("env", {}).items()}


class Host:
    def __init__(self, channel, init):
        self.channel, self.init = channel, init
        options = init.get("options") or {}
        self.options = options
        self.package = options.get("package") or ""
        self.root = os.path.abspath(options["collector_root"]) if options.get("collector_root") else ""
        self.paths = [os.path.abspath(p) for p in options.get("path") or []]
        read_source_of([os.path.dirname(p) if os.path.isfile(p) else p for p in [self.root, *self.paths] if p])
        self.index = int(init.get("device", -1))
        self.version = ""
        self.collectors = set()
        self.environment = None  # what the op that was loaded first asks for
        self.ops = {}
        self.bench = None
        self.offers = Offers(self._send_measure, self._command)
        self.offers.settled, self.offers.broken = self._settle, self._broken
        self._pending = []  # cases that wait for measurements only
        self._aside = collections.deque()  # cases that ran out of memory beside others
        self._sized = set()  # ops whose collectors choose their work by the free memory
        self._misread = set()  # numbers of the cases that have read it beside others
        self.defaults = None  # torch's, before any op has changed them
        self.restart = ""  # why the process is to be replaced once no case waits in its call
        self.sink = Sink()
        self.filling = None  # of what collectors leave uninitialised
        self.shim = None  # what stands in for the checkout's helper
        self.workdir = ""
        self._folders, self._locks = [], []  # of this worker alone
        self._ops_folder = ""  # one of them, once an op function asked for it
        self._warned, self._loaded = set(), set()
        self.imports = Imports()

    # -- start

    def hello(self):
        env = {"python": platform.python_version(), "hostname": platform.node()}
        os.environ.update({k: str(v) for k, v in (self.init.get("env") or {}).items()})
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        device, uuid, driver = self._name_device()
        if driver:
            env["driver"] = driver
        if self.options.get("gpu_uuids"):  # of a worker that has several
            env["gpu_uuids"] = self.options["gpu_uuids"]
        hello = {"version": "", "device": device, "device_uuid": uuid, "env": env, "ops": [], "configure": True}
        hello["window"] = max(1, int(self.options.get("window", 256 if self.in_batches else 4)))
        if self.in_batches:
            # One case waits here while another one is prepared. The engine keeps the others for faster workers.
            hello["ahead"] = 1
        if self.package:
            self.version = self._framework()
            hello["version"], env[self.package] = self.version, self.version
        else:
            self.version = hello["version"] = env["python"]
        self._torch(env, hello)
        self.bench = Bench(self.torch_device, self.init.get("measure"), self.channel.log, self.offers)
        self.defaults = TorchDefaults()
        self.tuning = Tuning(self.bench, self.channel.log, self._anew, lambda err: self.failure(err, None).get("fatal"))
        self.offers.uuid = hello["device_uuid"]
        if self.in_batches:
            self.offers.begin, self.offers.trim = self._begin, self._trim
            self.offers.waiting, self.offers.memory, self.offers.fills = self._waiting, self._memory, self._fills
        self.bench.attachments = Attachments(self.init.get("spool"))
        self.bench.kernels = bool(self.options.get("kernels"))
        self.bench.verify = bool(self.options.get("verify"))
        self.bench.package, self.bench.folder = self.package, self._folder_of_ops
        self.filling = Filling(self.bench)
        self.bench.reads = reads_of(self.init)
        self.bind(self.init.get("ops"))
        hello["ops"] = sorted(self.ops)
        if any(isinstance(op, CollectorOp) for op in self.ops.values()):
            self._settle_in()
        # One op: what it cannot do is known before the first case. Several: each
        # is imported when its first case comes, so that one broken module does
        # not take the others along.
        self._load_only()
        hello["reports_code"] = self._only() is not None
        return hello

    @property
    def in_batches(self):
        """Whether the instrument decides when a case begins: on a GPU, where nothing may
        run beside a measurement."""
        return self.index >= 0

    def _only(self):
        return next(iter(self.ops.values())) if len(self.ops) == 1 else None

    def _load_only(self):
        only = self._only()
        if only is not None:
            self.load(only)

    def _apart(self, op):
        """Whether an op must not run in this process, because of what it ran
        before: under another environment, of which modules keep what they read
        at import, or a module that must not share a process."""
        if self.environment is not None and self.environment != environment_of(op):
            return True
        if not isinstance(op, CollectorOp) or not op.binding.get("isolate"):
            return False
        try:
            return bool(self.collectors - {op.module_name()})
        except HostError:
            return False  # no process has a module for it: its case fails with that error

    def _name_device(self):
        if self.index < 0:
            return cpu_name(), "", ""
        try:
            nvml = Nvml()
        except OSError:
            return "", "", ""
        name, uuid = nvml.device(self.index)
        want = self.init.get("uuid")
        if want and uuid and uuid != want:
            raise HostError("device %d is %s, not %s as the engine expected" % (self.index, uuid, want), RESOURCE)
        return name, uuid, nvml.driver()

    def _framework(self):
        version = package_version(self.package)
        if version is None:
            raise HostError(
                "Python %s at %s has no package %s. Start aicplan inside the framework's container, or name the "
                "interpreter that has it: python = \"/path/to/python3\" in the runtime block."
                % (platform.python_version(), sys.executable, self.package),
                UNSUPPORTED,
            )
        requires = self.options.get("requires")
        if requires and not self.channel.ask(what="requires", version=str(version), specifier=requires)["met"]:
            raise HostError("%s %s is installed and the runtime requires %s" % (self.package, version, requires), UNSUPPORTED)
        return str(version)

    def fits(self, specifier):
        """Whether the framework is one that a collector is written for."""
        return self.channel.ask(what="compat", version=self.version, specifier=specifier)["met"]

    def newest(self, minima):
        """The place of the newest version that the framework reaches, -1 for none,
        and of the oldest one."""
        answer = self.channel.ask(what="route", version=self.version, minima=minima)
        return answer["index"], answer["oldest"]

    def _torch(self, env, hello):
        self.torch_device = PlainDevice("cpu") if self.index < 0 else PlainDevice("cuda", self.index)
        found = package_version("torch") if self.index >= 0 or self.package == "torch" or self.options.get("torch") else None
        if found is None:
            if self.index >= 0:
                self.channel.log("warn", "this Python has no torch; ops must bring their own timing")
            return
        torch = importlib.import_module("torch")
        env["torch"] = torch.__version__
        if torch.version.cuda:
            env["cuda"] = torch.version.cuda
        if self.index < 0:
            self.torch_device = torch.device("cpu")
            return
        if not torch.cuda.is_available():
            raise HostError("torch %s sees no CUDA device (it is built for CUDA %s)" % (torch.__version__, torch.version.cuda), RESOURCE)
        at = self._visible_index(torch)
        props = torch.cuda.get_device_properties(at)
        env["sm"] = "%d%d" % (props.major, props.minor)
        env["cudnn"] = str(torch.backends.cudnn.version())
        env["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_available() else ""
        hello["device"] = torch.cuda.get_device_name(at)
        if not hello["device_uuid"]:
            hello["device_uuid"] = _uuid(props)
        torch.cuda.set_device(at)
        self.torch_device = torch.device("cuda", at)

    def _visible_index(self, torch):
        """The device's index as torch counts, which CUDA_VISIBLE_DEVICES may
        make another one than its place on the bus."""
        want, count = self.init.get("uuid"), torch.cuda.device_count()
        if want:
            for i in range(count):
                if _uuid(torch.cuda.get_device_properties(i)) == want:
                    return i
        if os.environ.get("CUDA_VISIBLE_DEVICES") and count == 1:
            return 0
        if self.index >= count:
            raise HostError("torch sees %d devices and the engine wants number %d" % (count, self.index), RESOURCE)
        return self.index

    def bind(self, ops):
        bindings = dict(ops or {})
        if not bindings or self.options.get("discover"):
            for name, binding in find_ops(self.paths).items():
                bindings.setdefault(name, binding)
        if not bindings:
            raise HostError("no ops: the runtime has neither op bindings nor a path with functions that take bench")
        kept = {}
        for name, binding in bindings.items():
            old = self.ops.get(name)
            if old is not None and old.binding == binding:
                kept[name] = old
            else:
                hosted = any(word in binding for word in ("run", "getter", "versions", "match", "perf_filename"))
                kind = RanksOp if "ranks" in binding else CollectorOp if hosted else FunctionOp
                kept[name] = kind(name, binding, self)
        self.ops = kept

    def load(self, op):
        """Imports what an op runs. What goes wrong there is about the op and no
        case of it."""
        if self.environment is None:
            self.environment = environment_of(op)
            os.environ.update(self.environment)
        try:
            if op.name not in self._loaded:
                self.imports.begin()
            op.load()
        except (HostError, Restart):
            raise
        except SystemExit as err:
            raise HostError("op %s: importing %s ends the process with exit status %s" % (op.name, op.source(), err.code)) from err
        except Exception as err:
            failure = self.failure(err, op)
            raise HostError(
                "op %s: %s cannot be loaded: %s: %s" % (op.name, op.source(), type(err).__name__, failure["message"]),
                failure.get("class") or COLLECTOR_BUG,
            ) from err
        # What frameworks import stays: looking through it costs tenths of a second whenever
        # garbage is collected.
        if op.name not in self._loaded:
            self._loaded.add(op.name)
            gc.collect()
            gc.freeze()
        # Said once, instead of by every case in the words of whatever it calls first.
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if isinstance(op, CollectorOp) and self.index < 0 and self.options.get("device") is None and cuda is not None and not cuda.is_available():
            raise HostError("op %s: no GPU is visible here, and %s needs one" % (op.name, op.source()), RESOURCE)

    def _settle_in(self):
        """The folder that hosted collectors work in, and the way in which their
        children find the helper."""
        if self.workdir:
            return
        temporary = tempfile.gettempdir()
        self.workdir = self._own_folder(self.options.get("workdir") or temporary)
        if "context" in self.workdir or "skip_indexer" in self.workdir:
            raise HostError(
                'the work folder %s has "context" or "skip_indexer" in its path, which collectors take for the phase; set workdir' % self.workdir
            )
        own_temporary(self._own_folder(temporary) if self.options.get("workdir") else self.workdir)
        site = os.path.join(self.workdir, "site")
        os.mkdir(site)
        with open(os.path.join(site, "sitecustomize.py"), "w", encoding="utf-8") as f:
            f.write(SITE)
        os.environ["AICPLAN_HOST_FILE"] = archive()
        self._relay = Relay(self.channel, lambda: self.offers.seq, self.workdir)
        self.offers.relay = self._relay.name
        self._tell_children()
        old = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = site + (os.pathsep + old if old else "")
        own_ports()
        if self.root:
            self.shim = hook_helper(self.root, self.bench, self.sink, self.filling)
            if self.in_batches and "torch" in sys.modules:
                self._watch_memory()

    def _watch_memory(self):
        """Gives a case the GPU to itself if its collector reads the free memory: beside other cases it would choose
        other work. Such a case begins once more, and so does every later one of its op."""
        cuda, own = sys.modules["torch"].cuda, os.path.join(self.root, "collector") + os.sep
        read = cuda.mem_get_info

        def mem_get_info(*args, **keywords):
            op, alone = self.offers.op, self._alone and self.bench.deferral is None
            reads = self.sink.open and self.offers.here and sys._getframe(1).f_code.co_filename.startswith(own)
            if reads and not (alone and op in self._sized):
                self._sized.add(op)
                self._misread.add(self.offers.seq)  # the collector may catch the exception, or raise it in a thread
                raise AtOnce
            return read(*args, **keywords)

        cuda.mem_get_info = mem_get_info

    def _folder_of_ops(self):
        if not self._ops_folder:
            self._ops_folder = self._own_folder(tempfile.gettempdir())
        return self._ops_folder

    def _own_folder(self, base):
        slot = re.sub(r"\W", "", str(self.init.get("slot", "w")))
        folder, lock = own_folder(base, slot)
        self._folders.append(folder)
        self._locks.append(lock)
        return folder

    def _tell_children(self):
        """What the children of hosted collectors measure with, and on which device
        of the bus."""
        os.environ["AICPLAN_CHILD"] = json.dumps(
            {
                "root": self.root, "measure": self.init.get("measure"), "device": self.index, "relay": self._relay.name,
                "uuid": self.init.get("uuid") or self.offers.uuid, "visible": os.environ.get(VISIBLE),
            }
        )

    def configure(self, message):
        self.init["measure"], self.init["seed"] = message.get("measure"), message.get("seed", 0)
        self.bench.configure(message.get("measure"))
        self.bench.reads = reads_of(message)
        if self.workdir:
            self._tell_children()
        try:
            self.bind(message.get("ops"))
            if any(isinstance(op, CollectorOp) for op in self.ops.values()):
                self._settle_in()
            only = self._only()
            if only is not None and self._apart(only):
                raise Restart("op %s wants a process of its own" % only.name)
            changed = self.imports.changed()
            if changed:
                raise Restart("%s has changed" % changed)
            self._load_only()
            self.report(only)
        except HostError as err:
            # A fresh process reports it in its hello if it concerns the whole op.
            raise Restart(str(err))

    def report(self, op):
        """Sends the code of an op to the engine, if there is an op."""
        if op is not None:
            self.imports.grown(op.name)
            self.channel.send(type="code", op=op.name, **self.imports.of(op.name, op.entries()))

    # -- cases

    def case(self, case):
        """Works on one case and answers it. Raises Restart afterwards when the
        process should be replaced."""
        op = self.ops.get(case["op"])
        if op is not None and self._apart(op):
            raise Restart("op %s wants a process of its own" % case["op"])
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.offers.case(case["op"], case["seq"]))
            stack.enter_context(self.bench.case())
            if self.shim is not None:
                stack.enter_context(self.shim.case())
            self._case(case, op)

    def _case(self, case, op):
        self.channel.send(type="start", seq=case["seq"], again=case.get("again", False))
        started = time.perf_counter()
        failure = restart = None
        again = False
        self._misread.discard(case["seq"])
        refused, outer, self._refused = self._refusals(), self._refused, 0
        try:
            if op is None:
                raise HostError("this worker has no op %s; it has %s" % (case["op"], ", ".join(sorted(self.ops))))
            self._seed(case)
            self.load(op)
            if self.imports.grown(op.name):
                self.report(op)
            rows = self.tuning.run(op, case) if self.in_batches else op.run(case)
            if isinstance(op, CollectorOp):
                rows, restart = rows
            if self.imports.grown(op.name):
                self.report(op)
        except AtOnce:
            rows, again = [], True
        except BaseException as err:
            failure, restart = self.failure(err, op), getattr(err, "restart", None)
            rows = getattr(err, "rows", None) or []
            del err
        # Collectors that sweep skip a point that runs out of memory, or raise another error at their end.
        refused = self._refusals() - refused
        lacked, self._refused = refused > self._refused, outer + refused
        lacked = lacked or failure is not None and failure.get("class") == RESOURCE
        fatal = failure is not None and failure.get("fatal")
        last = self._alone and (case.get("in_place") or not self.defers(case))
        if lacked and not fatal and not restart and not again and not last:
            raise Crowded("out of memory", self.offers.reached())
        restart = restart or case.get("restart")
        if not fatal:
            doubtful = failure is not None and self.bench.deferral is not None and self.bench.deferral.doubtful
            again = again or doubtful or case["seq"] in self._misread or isinstance(rows, Deferred) and not rows.traceable
        end = End(case, op, rows, failure, time.perf_counter() - started, self.bench.attachments.take())
        if again:
            self._again(case)
        elif not isinstance(rows, Deferred):
            self._finish(end)
        elif fatal:
            end.rows = []
            self._finish(end)
        else:
            self._pending.append(end)
            self._settle()
        if restart and not again:
            raise Restart(restart)
        if not self.offers.open:
            self._between()

    _refused = 0  # allocations that the device has refused to cases in the call of the case at work

    def _refusals(self):
        """The allocations that the device has refused to this process so far."""
        cuda = self.bench._cuda
        return cuda.torch.cuda.memory_stats(cuda.device).get("num_ooms", 0) if cuda is not None else 0

    def _finish(self, end):
        """Reports the end of a case. Raises Restart if the process cannot go on."""
        if end.failure is None:
            self.channel.send(type="result", seq=end.case["seq"], rows=end.rows, seconds=round(end.seconds, 6), **end.attachments)
            return
        failure = end.failure
        self.channel.send(type="error", seq=end.case["seq"], rows=end.rows, **end.attachments, **failure)
        self._after_failure(failure)
        if failure.get("fatal"):
            raise Restart(failure["message"].splitlines()[0][:200] if failure["message"] else "fatal error")

    def _settle(self):
        """Ends the cases whose measurements are there."""
        if self.bench.deferral is not None:
            self.bench.deferral.complete()
            self.sink.settle(self.bench.deferral.measured)
        for end in list(self._pending):
            deferral = end.rows.deferral
            if not deferral.complete():
                continue
            self._pending.remove(end)
            if end.failure is None and deferral.error is None and deferral.mistaken():
                self._again(end.case)
                continue
            if end.failure is None and deferral.error is not None:
                end.failure = self.failure(deferral.error, end.op)
            end.seconds += deferral.seconds
            try:
                end.rows = end.rows.rows()
            except Exception as err:
                end.rows, end.failure = [], end.failure or self.failure(err, end.op)
            try:
                self._finish(end)
            except Restart as why:
                self.restart = self.offers.closed = str(why)

    def _broken(self, seq, err):
        """Ends this process if the visit to a case has left the device without a context: the inner
        cases, which return first, would fail in its place. The innermost case fails by itself."""
        failure = self.failure(err, None)
        if failure.get("fatal") and seq == self.offers.seq:
            self.offers.broken = lambda seq, err: None
        elif failure.get("fatal"):
            self.channel.send(type="error", seq=seq, rows=[], **failure)
            self.close()
            os._exit(1)

    def _again(self, case):
        """Has a case begin once more, and wait for each of its latencies: it has made
        something else of estimates than rows, or changed what it had prepared."""
        self.channel.log("debug", "op %s cannot go on without its latencies: case %s is measured again, point by point" % (case["op"], case["id"]))
        self.channel.put_back(dict(case, again=True, in_place=True, restart=self.restart))
        self.restart = self.offers.closed = ""  # the process is replaced after this case

    def defers(self, case):
        """Whether a collector may go on without the latencies of the case."""
        waits = case.get("in_place") or case["op"] in self._sized
        return self.in_batches and not waits and "torch" in sys.modules and self.bench.cuda is not None and self.bench.cuda.pools

    # -- batches

    _alone = True  # no other case has anything on the device

    def work(self):
        """Waits for what the instrument wants, or for another message of the engine.
        Raises Restart when the process should be replaced."""
        self.offers.next()
        if self.offers.open:
            self._filled = True
            return
        if self._filled:
            self._filled = False
            self._trim()  # other processes of the device count what this one keeps as taken
        if self.restart:
            raise Restart(self.restart)
        self.offers.closed = ""

    def _waiting(self):
        """The cases that have not begun, in the order in which they will."""
        cases, aside = self.channel.cases(), list(self._aside)
        return aside + cases if self._early() else cases + aside

    def _early(self):
        """Whether a case that ran out of memory begins before others: at the start of a batch, when memory is free,
        if others have room beside it."""
        return bool(self._aside) and not self.offers.open and 3 * self._aside[0]["short"] <= self._memory()[1]

    def _fills(self, name):
        op = self.ops.get(name)
        return isinstance(op, CollectorOp) and bool(op.binding.get("fills_memory") or name in self._sized)

    def _begin(self, alone):
        """Begins the next case, which may be in the call of another one."""
        case = self._aside.popleft() if self._early() or not self.channel.cases() else self.channel.case()
        before, self._alone = self._alone, alone
        cuda = self.bench._cuda
        try:
            if not self.offers.depth:
                self.case(case)
            else:
                with undisturbed(cuda, self.defaults):
                    self.case(case)
        except Crowded as err:
            # It gets another try once there is more memory, at the latest with the device to
            # itself. If that is not enough, a sweep waits for each of its points.
            self._aside.append(dict(case, again=True, short=err.short, in_place=alone or case.get("in_place", False)))
            self._trim()
        except Restart as why:
            self.restart = self.offers.closed = str(why)
        finally:
            self._alone = before

    def _trim(self):
        """Gives back memory for other processes of the device."""
        if self.bench._cuda is not None and not self.offers.open:
            self.bench.cuda.release()
            return
        gc.collect()
        if self.bench._cuda is not None:
            self.bench.cuda.empty_cache()

    _filled = False  # something was prepared since nothing was

    def _memory(self):
        return self.bench.cuda.memory_left() if self.bench.device.type == "cuda" and self.bench._cuda is not None else (0, 0, 0)

    def _send_measure(self, **message):
        self.channel.send(**{"type": "measure", **message})

    def _command(self, cases):
        """The instrument's next command; None when something else has come that a
        worker in this state takes."""
        if not self.in_batches:
            return self._here(self.channel.command())
        inner = self.offers.open

        def wanted(message):
            kind = message.get("type")
            idle = all("short" in case for case in cases)
            return kind == "measure" and not message.get("to") or idle and (kind == "case" or not inner and not cases and kind in ("configure", "shutdown"))

        message = self._here(self.channel.take(wanted))
        if message["type"] == "measure":
            return message
        self.channel.put_back(message)
        return None

    def _here(self, message):
        if message is None:  # the engine is gone
            self.close()
            os._exit(1)
        return message

    def tell(self, case, rows):
        """Sends rows of a case before its end, for the engine to keep if there is none."""
        if self.imports.grown(case["op"]):
            self.report(self.ops[case["op"]])
        self.channel.send(type="rows", seq=case["seq"], rows=rows)

    def _seed(self, case):
        digest = sha256(("%s/%s" % (case["id"], self.init.get("seed", 0))).encode()).digest()
        seed = int.from_bytes(digest[:4], "big")
        self.bench.seed, self.bench.case_id = seed, case["id"]
        random.seed(seed)
        for name, call in (("numpy", "random.seed"), ("torch", "manual_seed")):
            module = sys.modules.get(name)
            if module is not None:
                functools.reduce(getattr, call.split("."), module)(seed)

    def _anew(self, case, example):
        """Begins a case again, or its example, which a failure is blamed on then."""
        self.channel.send(type="start", seq=case["seq"], example=example)
        self._seed(case)
        self.bench.attachments.take()
        if self.shim is not None:
            self.shim._join.start()

    def failure(self, err, op):
        out = {
            "exception": type(err).__name__[:200],
            "message": clip(err) or type(err).__name__[:200],
            "traceback": clip("".join(traceback.format_exception(type(err), err, err.__traceback__))),
        }
        if isinstance(err, HostError):
            out["class"] = err.cls
        elif isinstance(err, (Unsupported, NotImplementedError)):
            out["class"] = UNSUPPORTED
        elif isinstance(err, MemoryError) or "OutOfMemory" in out["exception"] or _MEMORY.search(out["message"]):
            out["class"] = RESOURCE
        elif isinstance(err, SystemExit):
            out["class"] = COLLECTOR_BUG
            out["message"] = "%s ended the process with exit status %s in the middle of a case" % (getattr(op, "name", "the op"), err.code)
        elif isinstance(op, CollectorOp) and self._lacks(err):
            out["class"] = FRAMEWORK_BUG
            out["message"] = "%s: the installation at %s lacks the Python package %s, which %s needs here; install it and try again (--retry failed)" % (
                out["message"], sys.executable, err.name.partition(".")[0], self.package or "the collector",
            )
        elif isinstance(err, ImportError):
            out["class"] = COLLECTOR_BUG
        if _FATAL.search(out["message"]) and out.get("class") != RESOURCE or self._poisoned():
            out["fatal"] = True
            out.setdefault("class", FRAMEWORK_BUG)
        return out

    def _lacks(self, err):
        """Whether a package is not installed that is no part of the checkout: the
        collector is not to blame."""
        if not isinstance(err, ModuleNotFoundError) or not err.name:
            return False
        top = err.name.partition(".")[0]
        if self.package and top == self.package.replace("-", "_") or importlib.util.find_spec(top) is not None:
            return False  # the package is there and has no such module: another version
        own = [p for p in (self.root and os.path.join(self.root, "collector"), self.root, *self.paths) if p]
        return not any(os.path.exists(os.path.join(p, top + end)) for p in own for end in ("", ".py"))

    def _poisoned(self):
        """Whether the device's context has an error that stays."""
        torch = sys.modules.get("torch")
        if torch is None or self.index < 0 or not torch.cuda.is_initialized():
            return False
        try:
            torch.cuda.synchronize()
            return False
        except Exception:
            return True

    def _after_failure(self, failure):
        if failure.get("fatal"):
            return
        gc.collect()
        if failure.get("class") == RESOURCE and self.bench._cuda is not None and not self.offers.open:
            self.bench.cuda.trim()

    def _between(self):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if self.bench._cuda is not None:
            self.bench.cuda.settle()
        if self.sink.late:
            self.channel.log("warn", "%d rows came after their case had ended and were dropped" % self.sink.late)
            self.sink.late = 0

    def check_version(self, op, logged):
        """Says once when a collector labels its rows with another version than
        the one that is installed."""
        if logged and self.version and logged.partition("+")[0] != self.version.partition("+")[0]:
            self.warn("op %s labels its rows with version %s; %s is installed" % (op, logged, self.version))

    def warn(self, text):
        """Says it once."""
        if text not in self._warned:
            self._warned.add(text)
            self.channel.log("warn", text)

    def close(self):
        for folder in self._folders:
            remove_workdir(folder)


def _uuid(props):
    text = str(getattr(props, "uuid", "") or "")
    return "GPU-" + text if text and not text.startswith("GPU-") else text
