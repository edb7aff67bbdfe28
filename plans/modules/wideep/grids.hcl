# The shapes of DeepSeek-V3 under wide expert parallelism, as the published tables have them. A case is what one run of
# a collector has under fixed columns; its points are the token counts.

variable "nodes" { type = number } # Nodes of the ranks.

locals {
  tokens = [for p in range(18) : pow(2, p)]
  ranks  = var.nodes * var.gpus_per_node
  # Whether a table has a case: experts are dealt out evenly to two ranks or more.
  even = { for experts in toset(concat([256], [for m in var.models : m.num_experts])) : tostring(experts) => local.ranks >= 2 && experts % local.ranks == 0 }
  sent = anytrue([for m in var.models : local.even[tostring(m.num_experts)]])
  # What the throughput kernels run on.
  fits    = local.ranks < 2 ? true : var.nodes == 1 ? contains([2, 4, 8], var.gpus_per_node) : var.gpus_per_node == var.throughput.gpus_per_node && contains(var.throughput.nodes, var.nodes)
  wanted  = { for op in ["attention", "mlp", "moe", "deepep_ll", "deepep_normal", "moe_a2a"] : op => length(var.ops) == 0 || contains(var.ops, op) }
  phases  = ["context", "generation"]
  one_gpu = var.nodes == 1

  uncompiled = "the throughput kernels of DeepEP are not compiled for so many nodes, or GPUs of a node"
}

part "one_gpu" {
  axis "nodes" { values = [1] }
  axis "gpus_per_node" { values = [1] }
}

part "ranks" {
  axis "nodes" { values = [var.nodes] }
  axis "gpus_per_node" { values = [var.gpus_per_node] }

  filter "ranks" {
    keep   = nodes * gpus_per_node >= 2 && num_experts % (nodes * gpus_per_node) == 0
    reason = "DeepEP needs two ranks or more, with the same number of experts on each"
  }
}

grid "attention" {
  for_each    = local.wanted.attention && local.one_gpu ? toset(local.phases) : toset([])
  description = "latent attention of DeepSeek with random weights, on one GPU"
  op          = "wideep"
  include     = [part.one_gpu]
  perf_table  = "wideep_${each.key}_mla_perf"

  axis "collector" { values = ["attention"] }
  axis "num_heads" { values = [16, 32, 64, 128] }
  axis "tp_size" { values = [1] }

  sweep "shapes" {
    axis "batch_size" { values = [1, 8, 64] }
    axis "length" { values = [1, 128, 1024, 8192] }
    columns = ["batch_size", "isl", "step"]
    derive "isl" { value = each.key == "context" ? length : 1 }
    derive "step" { value = each.key == "context" ? 0 : length }
  }
}

grid "mlp" {
  for_each    = local.wanted.mlp && local.one_gpu ? toset(local.phases) : toset([])
  description = "the dense layer of DeepSeek with random weights, on one GPU"
  op          = "wideep"
  include     = [part.one_gpu]
  perf_table  = "wideep_${each.key}_mlp_perf"

  axis "collector" { values = ["mlp"] }
  axis "quant_type" { values = ["fp8_block"] }
  rows "layer" { values = [{ hidden_size = 7168, intermediate_size = 2048 }] }
  sweep "num_token" { values = local.tokens }
}

grid "moe" {
  for_each    = local.wanted.moe ? toset(local.phases) : toset([])
  description = "experts behind DeepEP, a rank for each GPU"
  op          = "wideep"
  include     = [part.ranks]
  perf_table  = "wideep_${each.key}_moe_perf"

  axis "collector" { values = ["moe"] }
  axis "moe_dtype" { values = ["fp8_block"] }
  axis "distribution" { values = var.distributions[each.key] }
  rows "experts" { values = [{ hidden_size = 7168, inter_size = 2048, topk = 8, num_experts = 256, moe_tp_size = 1, moe_ep_size = local.ranks }] }
  sweep "num_tokens" { values = local.tokens }
}

grid "deepep_ll" {
  for_each    = local.wanted.deepep_ll ? toset(["all"]) : toset([])
  description = "DeepEP in low-latency mode"
  op          = "wideep"
  include     = [part.ranks]
  perf_table  = "wideep_deepep_ll_perf"

  axis "collector" { values = ["deepep_ll"] }
  derive "node_num" { value = nodes }
  rows "model" { values = var.models }
  sweep "num_token" { values = [for t in local.tokens : t if t <= 128] }
}

grid "deepep_normal" {
  for_each    = local.wanted.deepep_normal ? toset(["all"]) : toset([])
  description = "DeepEP in throughput mode"
  op          = "wideep"
  include     = [part.ranks]
  perf_table  = "wideep_deepep_normal_perf"

  axis "collector" { values = ["deepep_normal"] }
  derive "node_num" { value = nodes }
  axis "dispatch_sms" { values = [12, 20, 24] }
  rows "model" { values = var.models }
  sweep "num_token" { values = [for t in local.tokens : t if t >= 16 && t <= 65536] }

  filter "kernels" {
    keep   = local.fits
    reason = local.uncompiled
  }
}

grid "moe_a2a" {
  for_each    = local.wanted.moe_a2a ? toset(["all"]) : toset([])
  description = "dispatch and combine of experts across ranks, each by itself"
  op          = "wideep"
  include     = [part.ranks]
  perf_table  = "moe_a2a_perf"

  axis "collector" { values = ["moe_a2a"] }
  derive "node_num" { value = nodes }
  derive "ep_size" { value = nodes * gpus_per_node }
  rows "mode" {
    values = concat(
      [for sms in [16, 20, 24] : { comm_backend = "deepep_ht", sms = sms, least = 16, most = 65536 }],
      [{ comm_backend = "deepep_ll", sms = 0, least = 1, most = 256 }],
    )
  }
  axis "phase" { values = ["dispatch", "combine"] }
  axis "comm_dtype" { values = ["bfloat16"] }
  rows "model" { values = [for m in var.models : { hidden_size = m.hidden_size, topk = m.num_topk, num_experts = m.num_experts }] }

  sweep "tokens" {
    columns = ["num_tokens"]
    axis "num_tokens" { values = local.tokens }
    filter "mode" {
      keep   = num_tokens >= least && num_tokens <= most
      reason = "low-latency mode is for few tokens, throughput mode for many"
    }
  }

  columns = ["collector", "nodes", "gpus_per_node", "node_num", "ep_size", "comm_backend", "sms", "phase", "comm_dtype", "hidden_size", "topk", "num_experts"]

  filter "kernels" {
    keep   = local.fits || comm_backend != "deepep_ht"
    reason = local.uncompiled
  }
}

output "grids" {
  description = "The grids by table, with the collector of each; those without a case are left out."
  value = merge(
    { for phase, g in grid.attention : "wideep_${phase}_mla_perf" => { grid = g, collector = "attention" } },
    { for phase, g in grid.mlp : "wideep_${phase}_mlp_perf" => { grid = g, collector = "mlp" } },
    { for phase, g in grid.moe : "wideep_${phase}_moe_perf" => { grid = g, collector = "moe" } if local.even["256"] && length(var.distributions[phase]) > 0 },
    { for _, g in grid.deepep_ll : "wideep_deepep_ll_perf" => { grid = g, collector = "deepep_ll" } if local.sent },
    { for _, g in grid.deepep_normal : "wideep_deepep_normal_perf" => { grid = g, collector = "deepep_normal" } if local.sent && local.fits },
    { for _, g in grid.moe_a2a : "moe_a2a_perf" => { grid = g, collector = "moe_a2a" } if local.sent },
  )
}
