# Grids that several frameworks share. What differs between them comes in as tables: formats with the SM versions
# that have kernels for them, heads, limits. A framework's module takes the grids of its ops.

variable "selection" { description = "The outputs of modules/selection." }

variable "own" {
  type        = list(string)
  default     = []
  description = "Ops whose grids the framework's module declares itself."
}

variable "formats" {
  default     = {}
  description = "Formats by gemm, context and generation (attention), moe, bmm and latent (latent attention without its projections), and of whole modules (mla_context, mla_generation, dsa, msa) groups of the formats of cache and weights with their first SM versions."
}

# Of attention: base heads by phase, attributes of base heads (plain) and of model heads by profile (heads), further
# columns and columns of the key by phase, and parts of the grids (limits).
variable "attention" { default = {} }

# Limits of gemm: blocks is true if a block-scaled weight has 128 x 128 elements at least, gemm is a part with further
# filters.
variable "limits" { default = {} }

# Heads of whole attention modules on a rank; null takes the powers of two up to 128.
variable "module_heads" { default = null }

# Bytes that a cache may take; by default without limit, if the framework does not check and such cases fail at run
# time.
variable "cache_budget" { default = 1e15 }

module "shapes" { source = "../shapes" }

locals {
  sm      = var.selection.sm
  models  = var.selection.models
  reasons = var.selection.reasons
  parts   = merge(var.selection.parts, module.shapes.parts)
  plans   = { for op, planned in var.selection.plans : op => planned && !contains(var.own, op) }

  # Without chosen tensor-parallel sizes, every number of heads on a rank is planned.
  any_tp = length(var.selection.tp) == 0
}
