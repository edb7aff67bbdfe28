# The op database of one backend: what the plans of all backends share. Such a plan has the runtimes and these locals:
# backend (its name), runtimes (by the names of modules/frameworks), grids by op, and unsupported (cases by op).

include = ["system.hcl", "../pipeline/tables.hcl"]

variable "ops" {
  type        = list(string)
  default     = []
  description = "Collect only these ops; empty means all."
}

variable "models" {
  type        = list(string)
  default     = []
  description = "Collect only what these checkpoints need; empty means everything."
}

variable "tp" {
  type        = list(number)
  default     = []
  description = "Collect only these tensor-parallel sizes; empty means all that the models are served with."
}

variable "cases" { default = "095f58a" } # Whose case plans: 095f58a (aiconfigurator 0.12), or aisimulate-0.13.
variable "power" { default = false }     # Measure power too: adds the columns power and power_limit.

variable "reference" {
  type        = map(string)
  default     = {}
  description = "Published tables by op, to estimate the time from: --var 'reference={gemm=\"gemm_perf.parquet\"}'."
}

variable "device_memory" {
  type        = number
  default     = null
  description = "Bytes that a process can allocate; null takes 99 % of the system's memory."
}

variable "collector_root" { default = "" } # A checkout of aiconfigurator, whose collectors measure the ops.

module "selection" {
  source        = "../selection"
  system        = system.this
  backend       = local.backend
  ops           = var.ops
  models        = var.models
  tp            = var.tp
  cases         = var.cases
  device_memory = var.device_memory
}

module "pipeline" {
  source   = "../pipeline"
  for_each = local.runtimes

  runtime     = each.value
  system      = system.this
  grids       = { for op, g in local.grids : op => g if module.selection.runtime_of[op] == each.key }
  bindings    = module.selection.bindings
  unsupported = local.unsupported
  power       = var.power
  coverage    = var.coverage
  layout      = var.layout
  backend     = local.backend

  reference = var.reference
}

output "files" { value = merge([for name, p in module.pipeline : p.files]...) } # the exported files by table
