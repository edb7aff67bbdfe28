# Do rows add up? Layers of three models, replayed without end, and the sum of the rows of their parts over each:
#
#   aicplan apply plans/h200_composition.hcl
#   aicplan apply plans/h200_composition.hcl --var torch=false     the native runtime alone
#
# The native layers are chains of matrix products; those of torch are whole decoder layers of one rank, with attention,
# norms and activations. The gates of the key reference add up what the collectors' protocol gives for the same products
# in the same run, for comparison: they warn.

include = ["modules/database/cuda.hcl"]

variable "python" { default = "python3" } # The interpreter that has torch.
variable "torch" { default = true }       # Measure torch's decoder layers too: needs Python with torch 2.8 or later for CUDA.
variable "power" { default = false }      # Measure power too, and add the energies of the native parts up.

variable "models" {
  type        = list(string)
  default     = []
  description = "Models to measure, by name; none means all."

  validation {
    condition     = alltrue([for name in var.models : contains(["Qwen3-32B TP1", "Qwen3-32B TP8", "Llama-8B TP1"], name)])
    error_message = "models are Qwen3-32B TP1, Qwen3-32B TP8 and Llama-8B TP1"
  }
}

locals {
  # One rank of each model.
  all_models = {
    "Qwen3-32B TP1" = { hidden_size = 5120, num_heads = 64, num_key_value_heads = 8, head_dim = 128, intermediate_size = 25600 }
    "Qwen3-32B TP8" = { hidden_size = 5120, num_heads = 8, num_key_value_heads = 1, head_dim = 128, intermediate_size = 3200 }
    "Llama-8B TP1"  = { hidden_size = 4096, num_heads = 32, num_key_value_heads = 8, head_dim = 128, intermediate_size = 14336 }
  }
  models = { for name, c in local.all_models : name => c if length(var.models) == 0 || contains(var.models, name) }

  steps = [
    { phase = "prefill", batch_size = 1, isl = 8192, cached = 8192 },
    { phase = "prefill", batch_size = 4, isl = 1024, cached = 1024 },
    { phase = "decode", batch_size = 8, isl = 1, cached = 4096 },
    { phase = "decode", batch_size = 64, isl = 1, cached = 4096 },
    { phase = "decode", batch_size = 256, isl = 1, cached = 1024 },
  ]

  products = { for name, c in local.models : name => [
    { n = (c.num_heads + 2 * c.num_key_value_heads) * c.head_dim, k = c.hidden_size },
    { n = c.hidden_size, k = c.num_heads * c.head_dim },
    { n = 2 * c.intermediate_size, k = c.hidden_size },
    { n = c.hidden_size, k = c.intermediate_size },
  ] }
  tokens = [for s in local.steps : s.batch_size * s.isl]

  chains = flatten([for name, list in local.products : [for m in local.tokens : {
    model = name, gemm_dtype = "bfloat16", m = m, shapes = join(" ", [for p in list : "${p.n}x${p.k}"])
  }]])
  gemms = distinct(flatten([for list in values(local.products) : [for p in list : [for m in local.tokens : {
    gemm_dtype = "bfloat16", m = m, n = p.n, k = p.k
  }]]]))
  layers = flatten([for name, c in local.models : [for s in local.steps : merge({ model = name }, c, s)]])
}

grid "gemm" {
  perf_table = "gemm_perf"
  columns    = ["gemm_dtype", "m", "n", "k"]
  rows "parts" { values = local.gemms }
}

grid "chain" {
  op      = "layer"
  columns = ["model", "gemm_dtype", "m", "shapes"]
  rows "layers" { values = local.chains }
}

collect "gemm" {
  grid       = grid.gemm
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]
  measure { power = var.power }
}

collect "chain" {
  grid       = grid.chain
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]
  measure { power = var.power }
}

collect "reference" {
  grid       = grid.gemm
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]
  measure { protocol = "reference" }
}

# The rows of the collectors' protocol are compared for information: those gates warn.
gate "native" {
  for_each = merge(
    { adaptive = { parts = collect.gemm, column = null, severity = "fail" } },
    { reference = { parts = collect.reference, column = null, severity = "warn" } },
    var.power ? { energy = { parts = collect.gemm, column = "energy", severity = "fail" } } : {},
  )
  input = collect.chain
  check "composition" {
    parts    = [each.value.parts]
    column   = each.value.column
    severity = each.value.severity
  }
}

runtime "torch" {
  kind      = "python"
  framework = "torch"
  package   = "torch"
  requires  = ">=2.8"
  python    = var.python
  path      = ["modules/torch"]
}

grid "layer" {
  enabled = var.torch
  columns = ["model", "phase", "batch_size", "isl", "cached", "hidden_size", "num_heads", "num_key_value_heads", "head_dim", "intermediate_size"]
  rows "layers" { values = local.layers }
}

grid "torch_gemm" {
  enabled    = var.torch
  op         = "gemm"
  perf_table = "gemm_perf"
  columns    = ["gemm_dtype", "m", "n", "k"]
  rows "parts" { values = local.gemms }
}

grid "context" {
  enabled    = var.torch
  op         = "attention_context"
  perf_table = "context_attention_perf"
  columns    = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "attn_dtype", "kv_cache_dtype", "kernel_source"]
  constants  = { beam_width = 1, step = 0 }
  rows "parts" {
    values = [for l in local.layers : {
      batch_size  = l.batch_size, isl = l.isl, num_heads = l.num_heads, num_key_value_heads = l.num_key_value_heads, head_dim = l.head_dim,
      window_size = 0, attn_dtype = "bfloat16", kv_cache_dtype = "bfloat16", kernel_source = "torch_flash"
    } if l.phase == "prefill"]
  }
}

grid "generation" {
  enabled    = var.torch
  op         = "attention_generation"
  perf_table = "generation_attention_perf"
  columns    = ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "kernel_source"]
  constants  = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }
  rows "parts" {
    values = [for l in local.layers : {
      batch_size  = l.batch_size, step = l.cached - 1, num_heads = l.num_heads, num_key_value_heads = l.num_key_value_heads, head_dim = l.head_dim,
      window_size = 0, kv_cache_dtype = "bfloat16", kernel_source = "torch_flash"
    } if l.phase == "decode"]
  }
}

grid "elementwise" {
  enabled = var.torch
  columns = ["kernel", "num_tokens", "hidden_size"]
  rows "parts" {
    values = distinct(flatten([for l in local.layers : [
      { kernel = "rms_norm", num_tokens = l.batch_size * l.isl, hidden_size = l.hidden_size },
      { kernel = "silu_and_mul", num_tokens = l.batch_size * l.isl, hidden_size = l.intermediate_size },
    ]]))
  }
}

locals {
  torch_parts = { for name, g in { gemm = grid.torch_gemm, context = grid.context, generation = grid.generation, elementwise = grid.elementwise } : name => g if var.torch }
}

collect "torch" {
  for_each   = merge(local.torch_parts, var.torch ? { layer = grid.layer } : {})
  grid       = each.value
  runtime    = runtime.torch
  system     = system.this
  depends_on = [preflight.node]
}

collect "torch_reference" {
  for_each   = local.torch_parts
  grid       = each.value
  runtime    = runtime.torch
  system     = system.this
  depends_on = [preflight.node]
  measure { protocol = "reference" }
}

gate "torch" {
  for_each = var.torch ? { adaptive = "fail", reference = "warn" } : {}
  input    = collect.torch["layer"]
  check "composition" {
    parts    = each.key == "reference" ? values(collect.torch_reference) : [for name, c in collect.torch : c if name != "layer"]
    severity = each.value
  }
}
