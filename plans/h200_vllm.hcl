# The op database of vLLM: 23 ops, 316,965 tasks on an H200.
#
#   aicplan plan  plans/h200_vllm.hcl                          what would be collected; no GPU needed
#   aicplan plan  plans/h200_vllm.hcl --var system=b200_sxm     the same for another GPU
#   aicplan apply plans/h200_vllm.hcl --var collector_root=DIR  collect, inside vLLM's container
#
# --var 'ops=["gemm","moe"]', --var 'models=["Qwen/Qwen3-32B"]' and --var 'tp=[1,2]'
# choose what to collect. Grids are in modules/vllm and modules/common, shapes
# of models in modules/models.

variable "system" {
  type        = string
  default     = "h200_sxm"
  description = "The GPU to plan for: one of aicplan systems."
}

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

variable "cases" {
  type        = string
  default     = "095f58a"
  description = "Whose case plans: 095f58a (aiconfigurator 0.12), or aisimulate-0.13."
}

variable "power" {
  type        = bool
  default     = false
  description = "Measure power too: adds the columns power and power_limit."
}

variable "coverage" {
  type        = number
  default     = 0.99
  description = "Share of an op's cases that must have a row for its table to be exported."
}

variable "reference" {
  type        = map(string)
  default     = {}
  description = "Published tables by op, to estimate the time from: --var 'reference={gemm=\"gemm_perf.parquet\"}'."
}

variable "layout" {
  type        = string
  default     = "flat"
  description = "Layout of the exported files: flat, systems or families."
}

variable "device_memory" {
  type        = number
  default     = null
  description = "Bytes that a process can allocate; null takes 99 % of the system's memory."
}

variable "collector_root" {
  type        = string
  default     = ""
  description = "A checkout of aiconfigurator, whose collectors measure the ops."
}

variable "release" {
  type        = string
  default     = "0.24.0"
  description = "vLLM's version, 0.24.0 or 0.25.0. Collectors of 095f58a refuse 0.25.0, those of aisimulate take both."

  validation {
    condition     = contains(["0.24.0", "0.25.0"], var.release)
    error_message = "The grids are those of vLLM 0.24.0 and 0.25.0."
  }
}

variable "uninitialised" {
  type        = string
  default     = null
  description = "what the collectors leave uninitialised: random fills it in all ops, left in none; without it the bindings say, random for the weights of products"
}

system "this" { name = var.system }

runtime "vllm" {
  kind           = "python"
  framework      = "VLLM"
  package        = "vllm"
  requires       = coalesce(module.selection.pin, "==${var.release}")
  env            = module.selection.runtime_env
  collector_root = var.collector_root
  uninitialised  = var.uninitialised
}

# Kimi delta attention needs a preview build.
runtime "vllm_preview" {
  kind           = "python"
  framework      = "VLLM"
  package        = "vllm"
  requires       = coalesce(module.selection.pin, "==0.1.dev19262")
  env            = module.selection.runtime_env
  collector_root = var.collector_root
  uninitialised  = var.uninitialised
}

module "selection" {
  source  = "./modules/selection"
  system  = system.this
  backend = "vllm"
  ops     = var.ops
  models  = var.models
  tp      = var.tp
  cases   = var.cases

  device_memory = var.device_memory
}

module "vllm" {
  source    = "./modules/vllm"
  selection = module.selection
}

module "pipeline" {
  source   = "./modules/pipeline"
  for_each = { base = runtime.vllm, preview = runtime.vllm_preview }

  runtime     = each.value
  system      = system.this
  grids       = { for op, g in module.vllm.grids : op => g if module.selection.runtime_of[op] == each.key }
  bindings    = module.selection.bindings
  unsupported = module.vllm.unsupported
  power       = var.power
  coverage    = var.coverage
  layout      = var.layout
  backend     = "vllm"

  reference = var.reference
}

output "files" {
  description = "The exported files by table."
  value       = merge([for name, p in module.pipeline : p.files]...)
}
