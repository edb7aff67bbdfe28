# Mixture of experts. One task measures all token counts of a shape: the weights
# are built once.

grid "moe" {
  enabled     = contains(var.selection.ops, "moe") && local.wants.moe
  description = "the experts of one rank"
  op          = "moe"
  perf_table  = "moe_perf"
  columns     = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "model_name"]
  include     = [local.parts.moe]

  rows "model" {
    values = [for r in local.models.moe : {
      model_name     = r.model_name
      hidden_size    = r.hidden_size
      inter_size     = r.inter_size
      topk           = r.topk
      num_experts    = r.num_experts
      max_tp         = r.max_tp
      allowed_dtypes = r.dtypes.vllm
      selected       = r.selected
    }]
  }

  rows "format" {
    values = [
      { moe_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { moe_dtype = "int4_wo", min_sm = 0, max_sm = 999 },
      { moe_dtype = "fp8", min_sm = 87, max_sm = 999 },
      { moe_dtype = "fp8_block", min_sm = 89, max_sm = 999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
      { moe_dtype = "w4a16_mxfp4", min_sm = 0, max_sm = 999 },
      { moe_dtype = "w4a8_mxfp4_mxfp8", min_sm = 100, max_sm = 109 },
    ]
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "vLLM has no expert kernel for the format on SM ${local.sm}"
  }

  filter "topology" {
    keep   = moe_tp_size == 1 || moe_ep_size == 1
    reason = "vLLM splits experts either by tensor or by expert parallelism, never by both"
  }

  # Checkpoints of one shape are one case, named after the first.
  distinct {
    by = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution"]
  }

  sweep "num_tokens" { values = module.shapes.moe_tokens }
}
