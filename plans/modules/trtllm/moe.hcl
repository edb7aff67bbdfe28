# Mixture of experts. One task measures all token counts of a shape: the weights are built once.

grid "moe" {
  enabled     = var.selection.plans.moe
  description = "the experts of one rank"
  perf_table  = "moe_perf"
  columns     = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "min_latency_mode", "model_name"]
  include     = [module.common.parts.moe, module.common.parts.moe_256_gpus]

  axis "min_latency_mode" { values = [false, true] } # kernels for a few tokens, SM 100 with NVFP4 only

  filter "min_latency" {
    keep   = min_latency_mode == false || (moe_dtype == "nvfp4" && local.sm == 100 && num_experts <= 256)
    reason = "the low-latency kernels exist for NVFP4 on SM 100 with up to 256 experts"
  }

  # Checkpoints of one shape are one case, named after the first.
  distinct {
    by = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "min_latency_mode"]
  }

  sweep "num_tokens" { values = module.shapes.moe_tokens }
}

grid "moe_ep" {
  enabled     = var.selection.plans.moe_ep
  description = "experts under wide expert parallelism, with and without redundant experts"
  perf_table  = "moe_expert_compute_perf"
  columns     = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "num_slots", "use_eplb", "moe_tp_size", "moe_ep_size", "distribution", "model_name"]
  include     = [module.common.parts.sm_gate, module.common.parts.chosen]

  rows "model" { values = [for r in var.selection.models.moe : r if r.wide_ep] }

  rows "format" {
    values = [
      { moe_dtype = "fp8_block", min_sm = 90, max_sm = 999 },
      { moe_dtype = "nvfp4", min_sm = 100, max_sm = 999 },
    ]
  }

  rows "balancing" {
    values = [
      { use_eplb = false, redundant = false },
      { use_eplb = true, redundant = false },
      { use_eplb = true, redundant = true },
    ]
  }

  axis "spread" { values = ["power_law_1.01", "power_law_1.2"] }
  derive "distribution" { value = use_eplb ? "${spread}_eplb" : spread } # as the collector labels its rows
  axis "moe_tp_size" { values = [1] }
  axis "moe_ep_size" { values = [for e in module.shapes.ep_sizes : e if e > 1] }
  derive "num_slots" { value = redundant ? 288 : num_experts } # copies of experts; 288 leaves 32 for hot ones among 256

  filter "experts_divide" {
    keep   = num_experts % moe_ep_size == 0
    reason = "the experts do not divide over the ranks"
  }

  filter "slots_fit" {
    keep   = !redundant || num_experts <= 288
    reason = "the model has more experts than slots"
  }

  filter "slots_divide" {
    keep   = num_slots % moe_ep_size == 0
    reason = "the slots do not divide over the ranks"
  }

  distinct {
    by     = ["moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "num_slots", "use_eplb", "moe_tp_size", "moe_ep_size", "distribution"]
    prefer = "min"
    of     = model_name
  }

  sweep "num_tokens" { values = module.shapes.moe_tokens }
}
