"""Code that torch compiles for any shape is tuned to the first shape that it meets. Every worker meets
the same one first: that of the example of a kind of cases. Functions that leave the choice to torch are
compiled for each shape."""

import gc
import os
import sys

from .errors import Stopped

_NO_LIMIT = 1 << 20


class Tuning:
    """Runs cases of ops, and the example of their kind before torch compiles for one of them."""

    def __init__(self, bench, log, begin, fatal):
        """begin(case, example) is called before an example, and before its case runs again. fatal(err) reports whether
        the device is lost."""
        self._bench, self._log, self._begin, self._fatal = bench, log, begin, fatal
        bench.prepares = self._listen
        self._done = set()  # ids of examples
        self._runs = []  # for each run in progress: its case, whether it is stopped if torch compiles, and whether it was
        self._handler = None  # torch's, once it is there
        self._folder = None  # of compiled code, as the first case finds it

    def run(self, op, case):
        """What op.run(case) returns."""
        example = case.get("example")
        if example is None:
            return self._run(op, case, False)[0]
        if self._folder is None:
            self._folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
        if not self._folder:
            return self._tuned(op, case, example)
        # It is unknown for which shape compiled code elsewhere is tuned.
        outer = os.environ.get("TORCHINDUCTOR_CACHE_DIR", self._folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(self._folder, "example_" + example["id"][:16])
        try:
            return self._tuned(op, case, example)
        finally:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = outer

    def _tuned(self, op, case, example):
        # A case of which some points are measured may begin with another shape.
        same = example["id"] == case["id"] and example.get("sweep") == case.get("sweep")
        if same or example["id"] in self._done:
            self._done.add(example["id"])
            return self._run(op, case, False)[0]
        rows, stopped = self._run(op, case, True)
        if not stopped:
            return rows
        self._done.add(example["id"])
        of = {**case, "sweep": None, **example}
        self._begin(of, True)
        self._bench.stopped = Stopped
        try:
            self._run(op, of, False)
        except Stopped:
            pass
        except BaseException as err:  # its own case fails in the same way
            if self._fatal(err):
                raise
            self._log("debug", "the example %s for case %s: %s: %s" % (example["id"], case["id"], type(err).__name__, err))
        finally:
            self._bench.stopped = None
        gc.collect()
        self._begin(case, False)
        return self._run(op, case, False)[0]

    def _listen(self):
        callback, config = sys.modules.get("torch._dynamo.callback"), sys.modules.get("torch._dynamo.config")
        if self._handler is None and callback is not None:
            self._handler = callback.callback_handler
            self._handler.register_start_callback(self._compiles)
        # Otherwise the second shape that a worker meets tunes the code of all others. Settings belong to a thread.
        if config is not None and config.automatic_dynamic_shapes:
            config.automatic_dynamic_shapes = False
            config.recompile_limit = config.accumulated_recompile_limit = _NO_LIMIT  # beyond, torch does not compile

    def _run(self, op, case, stops):
        """The rows, and whether the run was stopped because torch began to compile."""
        self._listen()
        run = {"seq": case["seq"], "stops": stops, "stopped": False}
        self._runs.append(run)
        try:
            return op.run(case), run["stopped"]
        except BaseException:
            if run["stopped"]:
                return None, True
            raise
        finally:
            self._runs.remove(run)

    def _compiles(self, *_):
        """Is called before torch compiles, also for a case that is loaded in the call of another one."""
        run, offers = self._runs[-1] if self._runs else None, self._bench.offers
        if run and run["stops"] and run["seq"] == offers.seq and offers.here:
            run["stopped"] = True
            raise Stopped
