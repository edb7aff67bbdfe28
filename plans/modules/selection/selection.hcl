# What a run is about: the GPU, and which ops, models and tensor-parallel sizes were asked for. Backends read it instead
# of the variables, so that a choice means the same everywhere.

variable "system" { description = "The system to plan for." }
variable "backend" { type = string } # trtllm, vllm or sglang.

variable "ops" {
  type        = list(string)
  default     = []
  description = "Plan only these ops; empty plans all."

  validation {
    condition     = alltrue([for o in var.ops : contains(local.all_ops, o)])
    error_message = "This backend has no op ${join(", ", local.unknown_ops)}.${length(local.meant_ops) == 0 ? "" : " Did you mean ${join(" and ", local.meant_ops)}?"} Its ops are ${join(", ", local.all_ops)}."
  }
}

variable "models" {
  type        = list(string)
  default     = []
  description = "Plan only what these checkpoints need; empty plans everything."

  validation {
    condition     = alltrue([for m in var.models : contains(module.models.names, m)])
    error_message = "No shapes are on file of ${join(", ", local.unknown_models)}.${length(local.meant) == 0 ? "" : " Did you mean ${join(" and ", local.meant)}?"}${length(local.same_maker) == 0 ? "" : " Of the same maker there are ${join(", ", local.same_maker)}."} aicplan describe plans/modules/models --eval local.names lists what there is."
  }

  validation {
    condition     = length(distinct([for m in var.models : try(module.models.pins[m][var.backend], "")])) <= 1
    error_message = "Case plans name different versions of ${var.backend} for these models. Choose them in runs of their own."
  }
}

variable "tp" {
  type        = list(number)
  default     = []
  description = "Plan only these tensor-parallel sizes; empty plans every size that a model is served with."

  validation {
    condition     = alltrue([for t in var.tp : contains(powers(2, 0, 7), t)])
    error_message = "Tensor-parallel sizes are powers of two from 1 to 128."
  }
}

variable "device_memory" {
  type        = number
  default     = null
  description = "Bytes that a process can allocate; null takes the system's."
}

variable "cases" { default = "095f58a" } # Version of the case plans: 095f58a, or aisimulate-0.13.

module "models" {
  source = "../models"
  cases  = var.cases
}

module "frameworks" {
  source  = "../frameworks"
  backend = var.backend
}

locals {
  all_ops    = keys(module.frameworks.bindings)
  sm         = coalesce(var.system.sm_version, 0)
  everything = length(var.models) == 0
  tp_sizes   = [for t in powers(2, 0, 7) : t if length(var.tp) == 0 || contains(var.tp, t)]

  unknown_ops = [for o in var.ops : o if !contains(local.all_ops, o)]
  meant_ops   = compact([for o in local.unknown_ops : did_you_mean(o, local.all_ops)])

  unknown_models = [for m in var.models : m if !contains(module.models.names, m)]
  meant          = compact([for m in local.unknown_models : did_you_mean(m, module.models.names)])
  same_maker     = [for n in module.models.names : n if contains([for m in local.unknown_models : split("/", m)[0]], split("/", n)[0])]

  reasons = {
    base     = "a point of the base grid, and the run is about chosen models (var.models)"
    selected = "not a shape of the chosen models (var.models)"
    tp       = "not a chosen tensor-parallel size (var.tp)"
    served   = "the model is not served with so many tensor-parallel ranks"
  }

  # Shapes of models that this backend plans. selected marks the rows of chosen models. Runs of chosen models have no
  # base grid, so they plan all rows of these models.
  rows = {
    for kind, rows in module.models.by_kind :
    kind => [for r in rows : merge(r, {
      selected       = local.everything || anytrue([for m in r.models : contains(var.models, m)])
      allowed_dtypes = try(r.dtypes[var.backend], null)
    }) if contains(try(r.only, [var.backend]), var.backend) || anytrue([for m in r.models : contains(var.models, m)])]
  }

  # Requirements of the chosen models: a model without one has the version of the plan.
  pins = distinct([for m in var.models : try("==${module.models.pins[m][var.backend]}", "")])

  chosen_ops = length(var.ops) == 0 ? local.all_ops : var.ops
  wants      = { for kind, rows in local.rows : kind => anytrue([for r in rows : r.selected]) }
}

output "sm" { value = local.sm }                                                  # compute capability times ten; 0 where there is none
output "memory" { value = coalesce(var.device_memory, var.system.usable_memory) } # bytes that a process can allocate

output "plans" {
  description = "By op of any backend: whether it was asked for, and a chosen model has layers of its kind."
  value       = { for op, kind in module.frameworks.kinds : op => contains(local.chosen_ops, op) && try(local.wants[kind], true) }
}

# The version that all chosen models are collected with, as a requirement; null without one.
output "pin" { value = try(local.pins[0], "") == "" ? null : local.pins[0] }
output "cases" { value = var.cases }             # version of the case plans
output "everything" { value = local.everything } # true when no models were chosen: the base grids belong to the plan

output "base_products" {
  description = "Whether products of the base grid are planned: always without chosen models, else if one has no row of projections."
  value       = local.everything || anytrue([for m in var.models : !anytrue([for r in local.rows.projections : contains(r.models, m)])])
}

output "tp" { value = var.tp }               # chosen tensor-parallel sizes; empty when none were chosen
output "tp_sizes" { value = local.tp_sizes } # tensor-parallel sizes to plan, 1 to 128
output "models" { value = local.rows }       # shapes by kind of layer, with the field selected

# How the ops are hosted: the ops of a python runtime with collector_root.
output "bindings" { value = module.frameworks.bindings }
output "runtime_of" { value = module.frameworks.runtime_of }   # which of the plan's runtimes an op runs in
output "runtime_env" { value = module.frameworks.runtime_env } # environment that the collectors' own runner sets
output "reasons" { value = local.reasons }                     # why a selection leaves a case out

# What grids share, for include.

part "sm_gate" {
  description = "rows of formats with the SM versions that have them"

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = "SM ${local.sm} has no kernel for the format: FP8 starts at SM 89, NVFP4 at SM 100"
  }
}

part "sm_90" {
  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = "the sparse attention kernels need SM 90"
  }
}

part "chosen" {
  description = "rows of models, told whether they were asked for"

  filter "chosen" {
    keep   = selected
    reason = local.reasons.selected
  }
}

part "base_grid" {
  filter "base_grid" {
    keep   = local.everything
    reason = local.reasons.base
  }
}

part "served_heads" {
  description = "a model's heads, spread over the ranks that it is served with"
  include     = [part.chosen]

  axis "tp_size" { values = local.tp_sizes }
  derive "num_heads" { value = floor(native_num_heads / tp_size) }

  filter "tp_served" {
    keep   = contains(served_tp, tp_size) && native_num_heads % tp_size == 0
    reason = local.reasons.served
  }
}

part "served_kv_heads" {
  description = "the same with key/value heads"
  include     = [part.served_heads]

  derive "num_key_value_heads" { value = ceil_div(native_num_key_value_heads, tp_size) } # every rank keeps at least one

  filter "kv_divides" {
    keep   = num_key_value_heads <= num_heads && num_heads % num_key_value_heads == 0
    reason = "the key/value heads of a rank do not divide its query heads"
  }
}

output "parts" {
  description = "Parts for include, by name."
  value = {
    sm_gate         = part.sm_gate
    sm_90           = part.sm_90
    chosen          = part.chosen
    base_grid       = part.base_grid
    served_heads    = part.served_heads
    served_kv_heads = part.served_kv_heads
  }
}
