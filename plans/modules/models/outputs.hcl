# The one place for model shapes. Every family of models has a file here with
# one local; a new family is a file and a name in local.sound_families. Rows hold
# native sizes: what a rank sees after tensor parallelism is derived by the
# grids.
#
# Optional fields of rows:
#   models   all checkpoints that have the shape (default: the one named)
#   only     backends that plan the row (default: all)
#   tp       tensor-parallel sizes that the model is served with
#   max_tp   largest tensor-parallel size of its experts
#   dtypes   formats its experts run in: a list, or one list per backend

locals {
  # Of rows that come to the same case the first stays, so the order decides
  # whose name such a case carries.
  families = [
    local.deepseek,
    local.gemma4,
    local.glm5,
    local.kimi,
    local.llama4,
    local.mimo_7b,
    local.mimo_v2,
    local.minimax,
    local.mixtral,
    local.qwen3,
    local.qwen3_moe,
    local.qwen3_vl,
    local.qwen3_vl_moe,
    local.qwen35,
    local.qwen35_moe,
    local.step3p7,
    local.gpt_oss,
    local.llama3,
    local.nemotron,
  ]

  # None where a row has a mistake: checks.hcl then says which.
  sound_families = [for f in local.families : f if length(local.wrong_rows) == 0]

  backends = ["trtllm", "vllm", "sglang"]

  # Formats that the experts of an unquantised checkpoint can be run in.
  any_dtype = {
    trtllm = ["bfloat16", "fp8", "fp8_block", "nvfp4"]
    vllm   = ["bfloat16", "fp8", "fp8_block", "nvfp4"]
    sglang = ["bfloat16", "fp8_block"]
  }

  attention = flatten([for f in local.sound_families : [for r in try(f.attention, []) : {
    profile      = r.profile
    architecture = f.architecture
    models       = r.models
    num_heads    = r.num_heads
    num_kv_heads = r.num_kv_heads
    head_dim     = r.head_dim
    v_head_dim   = try(r.v_head_dim, r.head_dim)
    window       = r.window
    tp           = r.tp
    chunk        = try(r.chunk, null)
    sink         = try(r.sink, false)
    scaling      = try(r.scaling, null)
    only         = try(r.only, local.backends)
  }]])

  moe = flatten([for f in local.sound_families : [for r in try(f.moe, []) : {
    model_name  = r.model_name
    models      = try(r.models, [r.model_name])
    hidden_size = r.hidden_size
    inter_size  = r.inter_size
    topk        = r.topk
    num_experts = r.num_experts
    max_tp      = try(r.max_tp, 32)
    wide_ep     = try(r.wide_ep, f.wide_ep, false)
    dtypes      = { for b in local.backends : b => try(r.dtypes[b], r.dtypes) }
    router      = try(r.router, local.plain_router)
  }]])

  rows = {
    for kind in ["mla", "dsa", "dsv4", "msa", "mhc", "gdn", "kda", "mamba2", "encoder", "projections"] :
    kind => flatten([for f in local.sound_families : [for r in try(f[kind], []) : merge(r, {
      models       = try(r.models, [r.model], [r.model_name])
      architecture = try(r.architecture, f.architecture, "")
    })]])
  }

  # Narrow products next to the delta rule: its two gates, one value per head,
  # and the gate of a shared expert.
  gate_widths = flatten([for r in local.rows.gdn : concat(
    [for t in r.tp : { n = 2 * r.num_v_heads / t, k = r.d_model, tp_size = t, models = r.models }],
    try(r.shared_expert, false) ? [{ n = 1, k = r.d_model, tp_size = 0, models = r.models }] : [],
  )])

  served_tp = {
    for r in local.rows.projections :
    r.model => distinct(flatten([for a in local.attention : a.tp if contains(a.models, r.model)]))
  }

  # Dense products of a layer on one rank: fused query/key/value, attention
  # output, and the two of the dense layer. Every rank keeps at least one
  # key/value head.
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
}

output "by_kind" {
  description = "Rows by kind of layer."
  value = merge(local.rows, {
    attention         = local.attention
    moe               = [for r in local.moe : r if var.sound != null] # reading the variable checks the rows: checks.hcl
    gate_widths       = local.gate_widths
    projection_widths = local.projection_widths
  })
}

output "names" {
  description = "Every checkpoint that a row names."
  value = sort(distinct(flatten(concat(
    [for r in local.attention : r.models if var.sound != null], # the same
    [for r in local.moe : r.models],
    [for kind, rows in local.rows : [for r in rows : r.models]],
  ))))
}
