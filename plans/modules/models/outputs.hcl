# The one place for model shapes. Every family of models has a file here with one local; a new family is a file and a
# name in local.families. Rows hold native sizes: what a rank sees after tensor parallelism is derived by the grids.
#
# Optional fields of rows:
#   models   all checkpoints that have the shape (default: the one named)
#   only     backends whose full plan has the row; base grids of the others have its shapes (default: all)
#   cases    the version of the case plans that has the row (default: all versions); a family can have it, too
#   tp       tensor-parallel sizes that the model is served with
#   max_tp   largest tensor-parallel size of its experts
#   dtypes   formats its experts run in: a list, or one list per backend

variable "cases" {
  default     = "095f58a"
  description = "Version of the case plans: 095f58a (aiconfigurator 0.12), or aisimulate-0.13 (its wheel 0.13.0.dev202610270000000085)."

  validation {
    condition     = contains(["095f58a", "aisimulate-0.13"], var.cases)
    error_message = "The versions of the case plans are 095f58a and aisimulate-0.13."
  }
}

locals {
  # Of rows that come to the same case the first stays, so the order decides whose name such a case carries.
  families = [
    local.deepseek, local.gemma4, local.glm5, local.kimi, local.llama4, local.mimo_7b, local.mimo_v2, local.minimax,
    local.mixtral, local.qwen3, local.qwen3_moe, local.qwen3_vl, local.qwen3_vl_moe, local.qwen35, local.qwen35_moe,
    local.step3p7, local.gpt_oss, local.llama3, local.nemotron, local.glm53_flash, local.mistral3, local.muse_glimmer,
    local.qwen38,
  ]

  # Rows of the chosen case plans; none if a row has a mistake, which checks.hcl reports.
  sound_families = [for f in local.families : {
    for kind, rows in f : kind => try([for r in rows : r if try(r.cases, var.cases) == var.cases], rows)
  } if length(local.wrong_rows) == 0 && try(f.cases, var.cases) == var.cases]

  backends = ["trtllm", "vllm", "sglang"]

  # Formats that the experts of an unquantised checkpoint can be run in.
  any_dtype = {
    trtllm = ["bfloat16", "fp8", "fp8_block", "nvfp4"]
    vllm   = ["bfloat16", "fp8", "fp8_block", "nvfp4"]
    sglang = ["bfloat16", "fp8_block"]
  }

  attention = flatten([for f in local.sound_families : [for r in try(f.attention, []) : merge(
    { v_head_dim = r.head_dim, chunk = null, sink = false, scaling = null, only = local.backends },
    r, { architecture = f.architecture },
  )]])

  moe = flatten([for f in local.sound_families : [for r in try(f.moe, []) : merge(
    { models = [r.model_name], max_tp = 32, wide_ep = try(f.wide_ep, false), router = local.plain_router, cases = var.cases },
    r, { dtypes = { for b in local.backends : b => try(r.dtypes[b], r.dtypes) } },
  )]])

  rows = {
    for kind in ["mla", "dsa", "dsv4", "msa", "mhc", "gdn", "kda", "mamba2", "encoder", "projections", "widths"] :
    kind => flatten([for f in local.sound_families : [for r in try(f[kind], []) : merge(r, {
      models       = try(r.models, [r.model], [r.model_name])
      architecture = try(r.architecture, f.architecture, "")
      cases        = try(r.cases, var.cases)
    })]])
  }

  # Narrow products next to the delta rule: its two gates, one value per head, and the gate of a shared expert.
  gate_widths = flatten([for r in local.rows.gdn : concat(
    [for t in r.tp : { n = 2 * r.num_v_heads / t, k = r.d_model, tp_size = t, models = r.models }],
    try(r.shared_expert, false) ? [{ n = 1, k = r.d_model, tp_size = 0, models = r.models }] : [],
  )])

  # Products with widths beside those of the base grid.
  odd_widths = flatten([for r in local.rows.widths : [for n in r.n : [for k in r.k : { n = n, k = k, tp_size = 0, models = r.models }]]])

  served_tp = {
    for r in local.rows.projections :
    r.model => distinct(flatten([for a in local.attention : a.tp if contains(a.models, r.model)]))
  }

  # Dense products of a layer on one rank: fused query/key/value, attention output, and the two of the dense layer.
  # Every rank keeps at least one key/value head.
  projection_widths = flatten([for r in local.rows.projections : [for t in local.served_tp[r.model] : concat(
    [
      { n = (r.num_heads / t + 2 * ceil_div(r.num_kv_heads, t)) * r.head_dim, k = r.hidden_size, tp_size = t, models = r.models },
      { n = r.hidden_size, k = r.num_heads / t * r.head_dim, tp_size = t, models = r.models },
    ],
    r.inter_size > 0 ? [
      { n = 2 * r.inter_size / t, k = r.hidden_size, tp_size = t, models = r.models },
      { n = r.hidden_size, k = r.inter_size / t, tp_size = t, models = r.models },
    ] : [],
  ) if r.num_heads % t == 0]])

  # Products that stay in bfloat16 whatever the format of a layer: the head, and the router of the experts.
  bfloat16_widths = flatten([for r in local.rows.projections : concat(
    [for t in local.served_tp[r.model] : { n = floor(r.vocab_size / t), k = r.hidden_size, tp_size = t, models = r.models, bfloat16 = true }],
    [for e in local.moe : { n = e.num_experts, k = e.hidden_size, tp_size = 0, models = r.models, bfloat16 = true } if contains(e.models, r.model)],
  )])
}

output "by_kind" {
  description = "Rows by kind of layer."
  value = merge(local.rows, {
    attention         = local.attention
    moe               = [for r in local.moe : r if var.sound != null] # reading the variable checks the rows: checks.hcl
    gate_widths       = concat(local.gate_widths, local.odd_widths)
    projection_widths = local.projection_widths
    bfloat16_widths   = local.bfloat16_widths
  })
}

output "names" {
  description = "Every checkpoint that a row names."
  value       = local.names
}

locals {
  names = sort(distinct(flatten(concat(
    [for r in local.attention : r.models if var.sound != null], # the same
    [for r in local.moe : r.models],
    [for kind, rows in local.rows : [for r in rows : r.models]],
  ))))

  # Versions of the frameworks that the case plans name for single models, by model.
  pins = var.cases == "095f58a" ? {} : merge(
    { for m in concat(local.qwen38_models, ["RadixArk/Qwen3.8-2.4T-A95B-NVFP4"]) : m => { vllm = "0.27.1", sglang = "0.5.17" } },
    { for m in local.glm53_flash_models : m => { vllm = "0.31.0", sglang = "0.5.20" } },
  )
}

# By model: the versions of frameworks that it is collected with, if they differ from those of the plan.
output "pins" { value = local.pins }
