"""vLLM's bench client without the rest of vLLM, for bench-serving.py.

    python bench_vllm_client.py [flags of vllm bench serve]

vllm.benchmarks is client code: aiohttp and numpy. What it imports of the rest of
vLLM needs torch and a GPU's libraries; where torch is missing, empty modules
stand for it here, and the tokenizer comes from transformers. Needed beside a
`pip install --no-deps vllm`: aiohttp numpy tqdm transformers pillow datasets
pandas pybase64.
"""
import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types


class Nothing:
    """Stands for what a module would have."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        return Nothing()

    def __call__(self, *a, **__):
        return a[0] if len(a) == 1 and callable(a[0]) else Nothing()

    def __class_getitem__(cls, _):
        return cls


class Empty(types.ModuleType):
    """Stands for a module that needs a GPU's libraries."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Nothing,), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top == "torch" or top == "vllm" and not name.startswith("vllm.benchmarks"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        module.__path__ = []
        if module.__name__ == "vllm":
            module.__path__ = [d for d in (os.path.join(p, "vllm") for p in sys.path) if os.path.isdir(os.path.join(d, "benchmarks"))]


def main():
    whole = importlib.util.find_spec("torch") is not None
    if not whole:
        sys.meta_path.insert(0, Finder())
    from vllm.benchmarks import serve

    if not whole:
        from transformers import AutoTokenizer

        serve.get_tokenizer = lambda name, **_: AutoTokenizer.from_pretrained(name)
        serve.freeze_gc_heap = lambda: None
        serve.join_host_port = lambda host, port: f"{host}:{port}"
        serve.FlexibleArgumentParser = argparse.ArgumentParser
    p = argparse.ArgumentParser()
    serve.add_cli_args(p)
    serve.main(p.parse_args())


main()
