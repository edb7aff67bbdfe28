# The layers that take the index of an earlier one: dsa.hcl without the indexer.
# Their rows go to the same tables, under an op_name of their own.

part "shared_index" {
  filter "index_shared" {
    keep   = shares_index
    reason = "the model computes an index in every layer, so there is nothing to skip"
  }
}

grid "dsa_context_module_skip_indexer" {
  enabled     = contains(var.selection.ops, "dsa_context_module_skip_indexer") && local.wants.dsa
  description = "the same in layers that take the index of another, in prefill"
  op          = "dsa_context_module_skip_indexer"
  perf_table  = "dsa_context_module_perf"
  columns     = ["batch_size", "num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model", "dsa_prefill_backend"]
  include     = [part.dsa, local.parts.decode_batches, part.shared_index]

  sweep "lengths" {
    columns = ["isl", "step"]
    include = [part.dsa_context_lengths]

    distinct {}
  }
}

grid "dsa_generation_module_skip_indexer" {
  enabled     = contains(var.selection.ops, "dsa_generation_module_skip_indexer") && local.wants.dsa
  description = "the same in layers that take the index of another, in decode"
  op          = "dsa_generation_module_skip_indexer"
  perf_table  = "dsa_generation_module_perf"
  columns     = ["num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model", "dsa_prefill_backend"]
  constants   = { isl = 1 }
  include     = [part.dsa, part.shared_index]

  sweep "lengths" {
    columns = ["batch_size", "step"]
    include = [part.dsa_generation_lengths]

    distinct {}
  }
}
