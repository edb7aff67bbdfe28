#!/usr/bin/env python3
"""Counts the cases that a checkout's collectors list on SM 90, by op and model.

    python3 plans/testdata/case_plans.py CHECKOUT > plans/testdata/aisimulate-0.13.json

The getters of the collectors run on the stand-ins of upstream-check, so no framework
and no GPU is needed; PyYAML and packaging are. For aisimulate-0.13.json, CHECKOUT is
aiconfigurator at 095f58a with three changes: collector/cases and the model configs
are those of the wheel aisimulate 0.13.0.dev202610270000000085, and vLLM's collect_moe
accepts the model type glm5_next_text, which it does not know.

The result has, by backend and op, the number of cases, and by model if the cases name it.
"""

import collections
import importlib
import json
import os
import subprocess
import sys

UPSTREAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cudaops", "pyhost", "upstream")
FRAMEWORKS = {"trtllm": ("tensorrt_llm", "1.3.0rc23"), "vllm": ("vllm", "0.24.0"), "sglang": ("sglang", "0.5.16")}
WIDEEP = {"trtllm": ("moe_ep", "collector.wideep.trtllm.collect_moe_compute", "get_moe_ep_test_cases")}
UNPLANNED = {"dsv4_csa_attn_module", "dsv4_hca_attn_module"}  # of SGLang; no plan measures them


def models_of(cases):
    by = collections.Counter()
    for case in cases:
        values = case if isinstance(case, (list, tuple)) else vars(case).values() if hasattr(case, "__dict__") else [case]
        by.update([v for v in values if isinstance(v, str) and "/" in v][:1])
    return by if by.total() == len(cases) else None


def listed(backend):
    """Prints what one backend's getters list; runs with the stand-ins."""
    registry = importlib.import_module("collector.%s.registry" % backend).REGISTRY
    getters = [(e.op, e.module, e.get_func) for e in registry]
    out = {}
    for op, module, getter in getters + [g for b, g in WIDEEP.items() if b == backend]:
        if op in out or backend == "sglang" and op in UNPLANNED:
            continue
        cases = list(getattr(importlib.import_module(module), getter)())
        out[op] = {"cases": len(cases)}
        models = models_of(cases)
        if models:
            out[op]["models"] = dict(sorted(models.items()))
    print("\n" + json.dumps(out))


def main(checkout):
    sys.path.insert(0, UPSTREAM)
    import check

    modules = sorted(check.imported(checkout) - check.REAL)
    result = {}
    for backend, (package, version) in FRAMEWORKS.items():
        stub = {"root": checkout, "modules": modules, "sm": [9, 0], "versions": {package: version}}
        path = [os.path.join(UPSTREAM, "stubs"), checkout, os.path.join(checkout, "collector")]
        env = dict(os.environ, AICPLAN_STUB=json.dumps(stub), PYTHONPATH=os.pathsep.join(path), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, __file__, "--backend", backend], env=env, stdout=subprocess.PIPE, text=True, check=True)
        result[backend] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    listed(sys.argv[2]) if sys.argv[1] == "--backend" else main(os.path.abspath(sys.argv[1]))
