"""Static steps of vLLM, as `vllm bench latency` measures them: whole generations of
one batch by the offline engine, with random token ids and no text."""

import random
import statistics
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
):
    """ttft is a batch's prefill with its first token, tpot a decode step: the rest of
    a generation of osl tokens, divided by osl - 1. Both are medians in ms."""
    engine = _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size)
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


def _load(model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size):
    """The engine of these settings. One process has one engine: another one would find
    the first one's memory taken."""
    settings = (model, dtype, dummy, prefill_tokens, seq_len, max_num_seqs, tensor_parallel_size)
    if settings in _engine:
        return _engine[settings]
    from vllm import LLM

    if _engine:
        _engine.clear()
        import gc

        gc.collect()
    options = {"load_format": "dummy", "skip_tokenizer_init": True} if dummy else {}
    _engine[settings] = LLM(
        model=model,
        dtype=dtype,
        tensor_parallel_size=tensor_parallel_size,
        max_model_len=seq_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=prefill_tokens,
        enable_prefix_caching=False,
        **options,
    )
    return _engine[settings]


def _times(engine, seed, isl, osl, batch, iterations):
    """Wall times in ms of generations, after one that does not count."""
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=osl, ignore_eos=True, detokenize=False, temperature=1.0, top_p=1.0)
    chance = random.Random(seed)
    out = []
    for i in range(iterations + 1):
        prompts = [{"prompt_token_ids": [chance.randrange(1, 10000) for _ in range(isl)]} for _ in range(batch)]
        begin = time.perf_counter()
        results = engine.generate(prompts, sampling, use_tqdm=False)
        took = (time.perf_counter() - begin) * 1e3
        short = sum(1 for r in results if len(r.outputs[0].token_ids) != osl)
        if short or len(results) != batch:
            raise RuntimeError("%d of %d requests did not give %d tokens" % (short + batch - len(results), batch, osl))
        if i:
            out.append(took)
    return out
