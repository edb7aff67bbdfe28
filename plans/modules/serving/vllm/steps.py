"""Static steps of vLLM, as `vllm bench latency` measures them: whole generations of
one batch by the offline engine, with random token ids and no text."""

import atexit
import functools
import gc
import json
import os
import pathlib
import random
import shutil
import statistics
import tempfile
import time

_engine = {}


def static_step(
    model,
    dtype,
    dummy,
    iterations,
    prefill_tokens,
    seq_len,
    max_num_seqs,
    tensor_parallel_size,
    isl,
    osl,
    concurrency,
    bench,
    engine_args="{}",
):
    """ttft is a batch's prefill with its first token, tpot a decode step: the rest of
    a generation of osl tokens, divided by osl - 1. Both are medians in ms."""
    engine = _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args)
    first = _times(engine, bench.seed, isl, 1, concurrency, iterations)
    whole = _times(engine, bench.seed, isl, osl, concurrency, iterations)
    ttft = statistics.median(first)
    latency = statistics.median(whole)
    return {
        "latency": latency,
        "ttft": ttft,
        "tpot": (latency - ttft) / (osl - 1),
        "kernel_source": "vllm",
        "samples": len(whole),
        "rel_stdev": statistics.stdev(whole) / statistics.fmean(whole) if len(whole) > 1 else None,
    }


def static_trace(
    model,
    dtype,
    dummy,
    traced_steps,
    prefill_tokens,
    seq_len,
    max_num_seqs,
    tensor_parallel_size,
    isl,
    concurrency,
    bench,
    engine_args="{}",
):
    """Traces of the profiler: one of a batch's prefill, and one of the prefill with
    traced_steps decode steps behind it. Each is an attachment for each rank; no time
    of the row is a measurement of the framework without a profiler."""
    engine = _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args)
    row = {"kernel_source": "vllm"}
    for name, osl in (("prefill", 1), ("decode", 1 + traced_steps)):
        chance = random.Random(bench.seed)
        _generate(engine, chance, isl, osl, concurrency)
        engine.start_profile()
        try:
            row[name + "_traced_ms"] = _generate(engine, chance, isl, osl, concurrency)
        finally:
            engine.stop_profile()
        files = _traces()
        if len(files) != tensor_parallel_size:
            raise RuntimeError("the profiler wrote %d traces of %d ranks" % (len(files), tensor_parallel_size))
        for rank, path in enumerate(files):
            suffix = ".gz" if path.endswith(".gz") else ""
            bench.attach("%s_trace_%d.json%s" % (name, rank, suffix), pathlib.Path(path), "application/json")
            os.unlink(path)
    row["latency"] = row["decode_traced_ms"]
    return row


@functools.cache
def _trace_dir():
    """A folder for what the profiler writes, removed at the end."""
    path = tempfile.mkdtemp(prefix="steps-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _traces():
    """The traces that are there, by rank."""
    return sorted((os.path.join(_trace_dir(), n) for n in os.listdir(_trace_dir()) if ".pt.trace.json" in n), key=_rank)


def _rank(path):
    """The rank in a trace's name, as in dp0_pp0_tp1_dcp0_ep0_rank1."""
    digits = os.path.basename(path).partition("_rank")[2].split(".")[0]
    return (int(digits) if digits.isdigit() else 0, path)


def _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args):
    """The engine of these settings. One process has one engine: another one would find
    the first one's memory taken."""
    settings = (model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args)
    if settings in _engine:
        return _engine[settings]
    from vllm import LLM

    if _engine:
        _end(_engine.popitem()[1])
    options = {
        "model": model,
        "dtype": dtype,
        "tensor_parallel_size": tensor_parallel_size,
        "max_model_len": seq_len,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": prefill_tokens,
        "enable_prefix_caching": False,
        # Nothing is recorded before start_profile.
        "profiler_config": {
            "profiler": "torch",
            "torch_profiler_dir": _trace_dir(),
            "torch_profiler_with_stack": False,
            "torch_profiler_dump_cuda_time_total": False,
        },
    }
    if dummy:
        options.update(load_format="dummy", skip_tokenizer_init=True)
    _engine[settings] = LLM(**{**options, **json.loads(engine_args)})
    return _engine[settings]


def _end(engine):
    """Ends an engine, so that its processes give their GPUs' memory back before
    another one starts: dropping it alone leaves that to the garbage collector."""
    core = getattr(getattr(engine, "llm_engine", None), "engine_core", None)
    if hasattr(core, "shutdown"):
        core.shutdown()
    del core, engine
    gc.collect()


def _times(engine, seed, isl, osl, batch, iterations):
    """Wall times in ms of generations, after one that does not count."""
    chance = random.Random(seed)
    return [_generate(engine, chance, isl, osl, batch) for _ in range(iterations + 1)][1:]


def _generate(engine, chance, isl, osl, batch):
    """The wall time in ms of one generation."""
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=osl, ignore_eos=True, detokenize=False, temperature=1.0, top_p=1.0)
    prompts = [{"prompt_token_ids": [chance.randrange(1, 10000) for _ in range(isl)]} for _ in range(batch)]
    begin = time.perf_counter()
    results = engine.generate(prompts, sampling, use_tqdm=False)
    took = (time.perf_counter() - begin) * 1e3
    short = sum(1 for r in results if len(r.outputs[0].token_ids) != osl)
    if short or len(results) != batch:
        raise RuntimeError("%d of %d requests did not give %d tokens" % (short + batch - len(results), batch, osl))
    return took
