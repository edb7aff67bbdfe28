# Mixture of experts. SGLang's benchmark takes one token count at a time. A case
# contains the routing of the model and the kernels.

grid "moe" {
  enabled     = contains(var.selection.ops, "moe") && local.wants.moe
  description = "the experts of one rank"
  op          = "moe"
  perf_table  = "moe_perf"
  include     = [local.parts.moe, local.parts.moe_256_gpus]
  columns = [
    "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "model_name",
    "swiglu_limit", "moe_backend", "activation", "is_gated", "has_bias", "gemm1_alpha", "gemm1_clamp_limit", "scoring_func",
    "routing_method_type", "routed_scaling_factor", "renormalize", "has_correction_bias", "num_expert_group", "topk_group",
    "apply_router_weight_on_input", "is_fp4_experts",
  ]

  rows "model" {
    values = [for r in local.models.moe : merge(r.router, {
      model_name     = r.model_name
      hidden_size    = r.hidden_size
      inter_size     = r.inter_size
      topk           = r.topk
      num_experts    = r.num_experts
      max_tp         = r.max_tp
      allowed_dtypes = r.dtypes.sglang
      selected       = r.selected
    })]
  }

  rows "format" {
    values = [
      { moe_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { moe_dtype = "int4_wo", min_sm = 89, max_sm = 999 },
      { moe_dtype = "fp8_block", min_sm = 90, max_sm = 999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
      { moe_dtype = "w4a16_mxfp4", min_sm = 89, max_sm = 999 },
      { moe_dtype = "w4a8_mxfp4_mxfp8", min_sm = 100, max_sm = 109 },
    ]
  }

  axis "num_tokens" { values = module.shapes.moe_tokens }

  # On SM 90 the choice is known; elsewhere SGLang makes it.
  derive "moe_backend" {
    value = (
      local.sm != 90 ? "auto" :
      moe_dtype == "bfloat16" ? (is_gated ? "triton" : "flashinfer_cutlass") :
      moe_dtype == "w4a16_mxfp4" ? mxfp4_backend :
      moe_dtype == "int4_wo" ? "marlin" : "triton"
    )
  }

  derive "is_fp4_experts" { value = fp4_experts && contains(["w4a16_mxfp4", "w4a8_mxfp4_mxfp8"], moe_dtype) }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "SGLang has no expert kernel for the format on SM ${local.sm}"
  }

  # Checkpoints of one shape are one case, named after the first.
  distinct {
    by = ["moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution"]
  }
}
