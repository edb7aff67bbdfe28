# What a run is about: the GPU, and which ops, models and tensor-parallel sizes
# were asked for. Backends read it instead of the variables, so that a choice
# means the same everywhere.

variable "system" {
  description = "The system to plan for."
}

variable "all_ops" {
  type        = list(string)
  description = "The ops of the backend, in the order of its plan."
}

variable "ops" {
  type        = list(string)
  default     = []
  description = "Plan only these ops; empty plans all."

  validation {
    condition     = alltrue([for o in var.ops : contains(var.all_ops, o)])
    error_message = "This backend has no op ${join(", ", [for o in var.ops : o if !contains(var.all_ops, o)])}; its ops are ${join(", ", var.all_ops)}."
  }
}

variable "models" {
  type        = list(string)
  default     = []
  description = "Plan only what these checkpoints need; empty plans everything."

  validation {
    condition     = alltrue([for m in var.models : contains(module.models.names, m)])
    error_message = "No shapes are on file of ${join(", ", local.unknown_models)}.${length(local.same_maker) == 0 ? "" : " Of the same maker there are ${join(", ", local.same_maker)}."} The models are in plans/modules/models."
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

module "models" {
  source = "../models"
}

locals {
  sm         = coalesce(var.system.sm_version, 0)
  everything = length(var.models) == 0
  tp_sizes   = [for t in powers(2, 0, 7) : t if length(var.tp) == 0 || contains(var.tp, t)]

  unknown_models = [for m in var.models : m if !contains(module.models.names, m)]
  same_maker     = [for n in module.models.names : n if contains([for m in local.unknown_models : split("/", m)[0]], split("/", n)[0])]

  # Shapes of models, each row told whether it was asked for.
  rows = {
    for kind, rows in module.models.by_kind :
    kind => [for r in rows : merge(r, {
      selected = local.everything || anytrue([for m in r.models : contains(var.models, m)])
    })]
  }
}

output "sm" {
  description = "Compute capability times ten; 0 where there is none."
  value       = local.sm
}

output "memory" {
  description = "Bytes that a process can allocate."
  value       = coalesce(var.device_memory, var.system.usable_memory)
}

output "ops" {
  value = length(var.ops) == 0 ? var.all_ops : var.ops
}

output "everything" {
  description = "True when no models were chosen: the base grids belong to the plan."
  value       = local.everything
}

output "tp" {
  description = "Chosen tensor-parallel sizes; empty when none were chosen."
  value       = var.tp
}

output "tp_sizes" {
  description = "Tensor-parallel sizes to plan, 1 to 128."
  value       = local.tp_sizes
}

output "models" {
  description = "Shapes by kind of layer, with the field selected."
  value       = local.rows
}

output "names" {
  description = "Every checkpoint with shapes on file."
  value       = module.models.names
}

output "wants" {
  description = "By kind of layer: whether a chosen model has any."
  value       = { for kind, rows in local.rows : kind => anytrue([for r in rows : r.selected]) }
}

output "reasons" {
  description = "Why a selection leaves a case out."
  value = {
    base     = "a point of the base grid, and the run is about chosen models (var.models)"
    selected = "not a shape of the chosen models (var.models)"
    tp       = "not a chosen tensor-parallel size (var.tp)"
    served   = "the model is not served with so many tensor-parallel ranks"
    sm       = "SM ${local.sm} has no kernel for these formats"
  }
}
