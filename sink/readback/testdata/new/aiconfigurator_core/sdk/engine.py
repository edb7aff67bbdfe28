"""An engine in the manner of today's: it reads the tables below the folder that it
is given, and without one those that come with the package, wherever the database
was found. The package's own have one made-up answer, 42."""

import csv
import glob
import json
import os


def build_ops_json(ops):
    return json.dumps([op.query for op in ops])


class EngineHandle:
    def __init__(self, rows):
        self.rows = rows

    @classmethod
    def for_database(cls, database, *, systems_path=None):
        if systems_path is None:
            return cls(None)
        rows = []
        for path in glob.glob(os.path.join(systems_path, "data", database.system, "**", "*_perf.txt"), recursive=True):
            with open(path, newline="") as f:
                rows += csv.DictReader(f)
        return cls(rows)

    def evaluate_ops_json(self, ops, is_context, batch_size, s, prefix, x):
        if self.rows is None:
            return [("op", 42.0)]
        q = json.loads(ops)[0]
        if "geometry" in q:
            same = [r for r in self.rows if r.get("geometry") == q["geometry"] and r["prefix"] == str(prefix)]
            return [("op", float(min(same, key=lambda r: abs(int(r["x"]) - x))["latency"]))]
        if "n" in q:
            rows = [r for r in self.rows if r.get("n") == str(q["n"])]
            near = min(rows, key=lambda r: abs(int(r["m"]) - x))
            if near["kernel_source"] == "broken":
                raise RuntimeError("cannot read " + os.path.join(os.getcwd(), "data", "gemm_perf.txt"))
        else:
            rows = [r for r in self.rows if r.get("num_gpus") == str(q["num_gpus"]) and r["op_name"] == q["op"]]
            near = min(rows, key=lambda r: abs(int(r["message_size"]) - x * q["each"]))
        return [("op", float(near["latency"]), 0.0, "sol" if near["kernel_source"] == "unread" else "silicon")]
