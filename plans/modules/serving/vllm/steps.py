"""Static steps of vLLM: generations of one batch by the offline engine, with random
token ids and no text. The engine holds the requests until it has all of them, and says
when it took them up and had their tokens (the metrics of its outputs); where it cannot,
whole generations are timed, as `vllm bench latency` does."""

import contextlib
import functools
import gc
import itertools
import json
import math
import os
import pathlib
import random
import statistics
import time
from importlib import metadata

_engine = {}
_generations = itertools.count()
_TOKENS = 10000  # every vocabulary has more
_TRIED = "0.24.0"  # the version of vLLM whose interface this is


def _named(op):
    """The op; its errors that another version of vLLM may explain say which one this is."""

    @functools.wraps(op)
    def run(*args, **columns):
        try:
            return op(*args, **columns)
        except (TypeError, AttributeError) as err:
            version = metadata.version("vllm")
            if version.partition("+")[0] == _TRIED:
                raise
            raise RuntimeError(
                "%s: %s (static steps were tried with vLLM %s, and this is %s)" % (type(err).__name__, err, _TRIED, version)
            ) from err

    return run


@_named
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
    """ttft is a batch's prefill with its first token, tpot a decode step, as the engine
    says; latency is the whole generation of osl tokens by the clock of the caller, and
    frontend_ms what that has beyond the engine's steps. All are medians in ms. An engine
    that says nothing is timed from outside (timed_by is wall in place of engine): tpot is
    then what latency has beyond a generation of one token, divided by osl - 1, and the
    prefill may be several steps."""
    engine = _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args, bench)
    runs = _runs(engine, bench.seed, isl, osl, concurrency, iterations)
    row = _row([r["wall"] for r in runs])
    if all("first" in r for r in runs):
        ttft = statistics.median(r["first"] for r in runs)
        rest = statistics.median(r["rest"] for r in runs)
        frontend = statistics.median(r["wall"] - r["first"] - r["rest"] for r in runs)
        row.update(timed_by="engine", frontend_ms=frontend)
    else:
        ttft = statistics.median(r["wall"] for r in _runs(engine, bench.seed, isl, 1, concurrency, iterations))
        rest = row["latency"] - ttft
        row.update(timed_by="wall", frontend_ms=None)
    row.update(ttft=ttft, tpot=rest / (osl - 1))
    return row


@_named
def static_prefill(
    model,
    dtype,
    dummy,
    iterations,
    soak_s,
    prefill_tokens,
    seq_len,
    max_num_seqs,
    tensor_parallel_size,
    isl,
    concurrency,
    bench,
    engine_args="{}",
):
    """ttft in ms of a batch's prefill that is repeated without pause, as in a server full
    of prefills: the median of those that begin when it has been repeated for soak_s
    seconds, iterations at least. The prefill of static_step is behind decode steps, which
    leave the GPU a higher clock. latency, frontend_ms and timed_by are as there."""
    engine = _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args, bench)
    chance = random.Random(bench.seed)
    batches = [_prompts(chance, isl, concurrency) for _ in range(iterations)]  # nothing is drawn between two steps
    # The first one of its size may compile for seconds, in which the GPU rests.
    _generate(engine, batches[-1], 1)
    begin, runs, counted = time.perf_counter(), 0, []
    while len(counted) < iterations or time.perf_counter() - begin < 1.25 * soak_s:
        soaked = time.perf_counter() - begin >= soak_s
        times = _generate(engine, batches[runs % iterations], 1)
        runs += 1
        if soaked:
            counted.append(times)
    row = _row([r["wall"] for r in counted])
    if all("first" in r for r in counted):
        frontend = statistics.median(r["wall"] - r["first"] for r in counted)
        row.update(ttft=statistics.median(r["first"] for r in counted), timed_by="engine", frontend_ms=frontend)
    else:
        row.update(ttft=row["latency"], timed_by="wall", frontend_ms=None)
    return row


def _row(whole):
    """What every row has, of whole generations in ms."""
    return {
        "latency": statistics.median(whole),
        "kernel_source": "vllm",
        "samples": len(whole),
        "rel_stdev": statistics.stdev(whole) / statistics.fmean(whole) if len(whole) > 1 else None,
    }


@_named
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
    engine = _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args, bench)
    row = {"kernel_source": "vllm"}
    for name, osl in (("prefill", 1), ("decode", 1 + traced_steps)):
        chance = random.Random(bench.seed)
        _generate(engine, _prompts(chance, isl, concurrency), osl)
        for path in _traces(bench):  # of a case that failed
            os.unlink(path)
        engine.start_profile()
        try:
            row[name + "_traced_ms"] = _generate(engine, _prompts(chance, isl, concurrency), osl)["wall"]
        finally:
            engine.stop_profile()
        files = _traces(bench)
        if len(files) != tensor_parallel_size:
            raise RuntimeError("the profiler wrote %d traces of %d ranks" % (len(files), tensor_parallel_size))
        for rank, path in enumerate(files):
            suffix = ".gz" if path.endswith(".gz") else ""
            bench.attach("%s_trace_%d.json%s" % (name, rank, suffix), pathlib.Path(path), "application/json")
            os.unlink(path)
    row["latency"] = row["decode_traced_ms"]
    return row


def _traces(bench):
    """The traces that are there, by rank."""
    folder = bench.folder()
    return sorted((os.path.join(folder, n) for n in os.listdir(folder) if ".pt.trace.json" in n), key=_rank)


def _rank(path):
    """The rank in a trace's name, as in dp0_pp0_tp1_dcp0_ep0_rank1."""
    digits = os.path.basename(path).partition("_rank")[2].split(".")[0]
    return (int(digits) if digits.isdigit() else 0, path)


def _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args, bench):
    """The engine of these settings. One process has one engine: another one would find
    the first one's memory taken."""
    settings = (model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size, engine_args)
    if settings in _engine:
        return _engine[settings]
    from vllm import LLM

    if _engine:
        _end(_engine.popitem()[1])
    # Dropping an engine alone leaves its memory to the garbage collector; the error of
    # a failed case holds one, too.
    gc.collect()
    options = {
        "model": model,
        "dtype": dtype,
        "tensor_parallel_size": tensor_parallel_size,
        "max_model_len": seq_len,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": prefill_tokens,
        "enable_prefix_caching": False,
        # As a server has it: outputs have metrics.
        "disable_log_stats": False,
        # Nothing is recorded before start_profile.
        "profiler_config": {
            "profiler": "torch",
            "torch_profiler_dir": bench.folder(),
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
    another one starts."""
    core = getattr(getattr(engine, "llm_engine", None), "engine_core", None)
    if hasattr(core, "shutdown"):
        core.shutdown()


def _runs(engine, seed, isl, osl, batch, iterations):
    """Times of generations, as _generate returns them, after one that does not count."""
    chance = random.Random(seed)
    return [_generate(engine, _prompts(chance, isl, batch), osl) for _ in range(iterations + 1)][1:]


def _prompts(chance, isl, batch):
    """A batch of random token ids."""
    return [{"prompt_token_ids": [chance.randrange(1, _TOKENS) for _ in range(isl)]} for _ in range(batch)]


def _hold_and_run(engine, prompts, sampling):
    """When the engine began with a batch that it has had as a whole, and its outputs."""
    try:
        # Without this the engine begins with the first request while others are on
        # their way, and the batch's prefill is two steps.
        engine.sleep(level=0)
        engine.enqueue(prompts, sampling, use_tqdm=False)
        begin = time.perf_counter()
        engine.wake_up(tags=["scheduling"])
        return begin, engine.wait_for_completion(use_tqdm=False)
    except Exception:
        _clear(engine)
        raise


def _clear(engine):
    """Runs what a failed batch left in the engine, which would run it with the next one.
    An engine that cannot is ended, and the next case starts another."""
    try:
        engine.wake_up(tags=["scheduling"])
        engine.wait_for_completion(use_tqdm=False)
    except Exception:
        for settings in [s for s, e in _engine.items() if e is engine]:
            del _engine[settings]
        with contextlib.suppress(Exception):
            _end(engine)


def _told(metrics):
    """Whether an engine says when it had a request's tokens; some have zeros there."""
    times = [getattr(metrics, name, None) or 0.0 for name in ("scheduled_ts", "first_token_ts", "last_token_ts")]
    return 0 < times[0] < times[1] <= times[2] < math.inf


def _generate(engine, prompts, osl):
    """Times in ms of one generation: wall, and where the engine says it first (from when
    it took the batch up until it had the first tokens) and rest (until the last ones)."""
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=osl, ignore_eos=True, detokenize=False, temperature=1.0, top_p=1.0)
    # An engine that was told to cache prefixes has seen these prompts in other cases, but
    # not behind this token.
    first = 1 + next(_generations) % (_TOKENS - 1)
    for prompt in prompts:
        prompt["prompt_token_ids"][0] = first
    held = hasattr(engine, "enqueue")
    if held:
        begin, results = _hold_and_run(engine, prompts, sampling)
    else:
        begin = time.perf_counter()
        results = engine.generate(prompts, sampling, use_tqdm=False)
    times = {"wall": (time.perf_counter() - begin) * 1e3}
    short = sum(1 for r in results if len(r.outputs[0].token_ids) != osl)
    batch = len(prompts)
    if short or len(results) != batch:
        raise RuntimeError("%d of %d requests did not give %d tokens" % (short + batch - len(results), batch, osl))
    stats = [getattr(r, "metrics", None) for r in results]
    if held and all(_told(s) for s in stats):
        firsts = {s.first_token_ts for s in stats}
        if len(firsts) > 1:
            raise RuntimeError(
                "the engine prefilled the batch in %d steps, so this is no static step: %d requests of %d tokens "
                "have to fit into one step (prefill_tokens) and into its cache of keys and values" % (len(firsts), batch, len(prompts[0]["prompt_token_ids"]))
            )
        begin, first, last = min(s.scheduled_ts for s in stats), max(firsts), max(s.last_token_ts for s in stats)
        times.update(first=(first - begin) * 1e3, rest=(last - first) * 1e3)
    return times
