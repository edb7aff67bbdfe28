"""Code that torch compiles for any shape is tuned to the first shape that it meets. Every worker meets
the same one first: that of the example of a kind of cases."""

import gc
import os
import sys


class Stopped(BaseException):
    """Ends a run whose rows are not wanted."""


class Tuning:
    """Runs cases of ops, and the example of their kind before torch compiles for one of them."""

    def __init__(self, bench, log):
        self._bench, self._log = bench, log
        self._done = set()  # ids of examples
        self._runs = []  # for each run in progress: whether it is stopped if torch compiles, and whether it was
        self._handler = None  # torch's, once it is there
        self._folder = None  # of compiled code, as the first case finds it

    def run(self, op, case, begin):
        """What op.run(case) returns. begin is called before the case runs again."""
        example = case.get("example")
        if example is None:
            return self._run(op, case, False)[0]
        if self._folder is None:
            self._folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
        if self._folder:
            # It is unknown for which shape compiled code elsewhere is tuned.
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(self._folder, "example_" + example["id"][:16])
        if example["id"] in (*self._done, case["id"]):
            self._done.add(example["id"])
            return self._run(op, case, False)[0]
        rows, stopped = self._run(op, case, True)
        if not stopped:
            return rows
        self._done.add(example["id"])
        self._bench.stopped = Stopped
        try:
            self._run(op, {**case, "sweep": None, **example}, False)
        except Stopped:
            pass
        except BaseException as err:  # its own case fails in the same way
            self._log("debug", "the example %s for case %s: %s: %s" % (example["id"], case["id"], type(err).__name__, err))
        finally:
            self._bench.stopped = None
        gc.collect()
        begin()
        return self._run(op, case, False)[0]

    def _run(self, op, case, stops):
        """The rows, and whether the run was stopped because torch began to compile."""
        callback = sys.modules.get("torch._dynamo.callback")
        if self._handler is None and callback is not None:
            self._handler = callback.callback_handler
            self._handler.register_start_callback(self._compiles)
        run = {"stops": stops, "stopped": False}
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
        """Is called before torch compiles."""
        if self._runs and self._runs[-1]["stops"]:
            self._runs[-1]["stopped"] = True
            raise Stopped
