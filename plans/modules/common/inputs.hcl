# Grids that several backends share. What differs between them comes in as
# variables; a backend instantiates the module once and takes the grids of its
# own ops.

variable "selection" { description = "The outputs of modules/selection." }

variable "grids" {
  type        = list(string)
  description = "The ops whose grids are taken from here."
}

variable "bmm_precisions" {
  default     = []
  description = "Formats of the batched products around latent attention, each with the SM versions that have it."
}

variable "latent_precisions" {
  default     = []
  description = "Formats of the cache of bare latent attention."
}

variable "module_precisions" {
  default     = {}
  description = "Formats of whole attention modules (attention, cache, projections), by op."
}

variable "cache_budget" {
  type        = number
  default     = null
  description = "Bytes that a cache may take; null when the backend does not check and such cases fail at run time."
}

module "shapes" {
  source = "../shapes"
}

locals {
  sm      = var.selection.sm
  models  = var.selection.models
  wants   = var.selection.wants
  reasons = var.selection.reasons
  parts   = merge(var.selection.parts, module.shapes.parts)

  # The op is asked for, its grid is taken from here, and a chosen model has such
  # a layer.
  plans = { for op, kind in {
    compute_scale              = "any"
    encoder_attention          = "encoder"
    mla_bmm_gen_pre            = "mla"
    mla_bmm_gen_post           = "mla"
    mla_context                = "mla"
    mla_generation             = "mla"
    mla_context_module         = "mla"
    mla_generation_module      = "mla"
    dsa_context_module         = "dsa"
    dsa_generation_module      = "dsa"
    msa_context_module         = "msa"
    msa_generation_module      = "msa"
    dsv4_csa_context_module    = "dsv4"
    dsv4_hca_context_module    = "dsv4"
    dsv4_csa_generation_module = "dsv4"
    dsv4_hca_generation_module = "dsv4"
    gdn                        = "gdn"
    kda                        = "kda"
  } : op => contains(var.grids, op) && contains(var.selection.ops, op) && try(local.wants[kind], true) }

  # Heads on a rank of an axis of local heads: with tensor-parallel sizes
  # chosen, only the heads that they lead to.
  any_tp = length(var.selection.tp) == 0

  cache_budget = coalesce(var.cache_budget, 1e15)
}
