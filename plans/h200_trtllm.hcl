# The op database of TensorRT-LLM: 24 ops, 315,142 tasks on an H200.
#
#   aicplan plan  plans/h200_trtllm.hcl                          what would be collected; no GPU needed
#   aicplan plan  plans/h200_trtllm.hcl --var system=b200_sxm     the same for another GPU
#   aicplan apply plans/h200_trtllm.hcl --var collector_root=DIR  collect, inside TensorRT-LLM's container
#
# --var 'ops=["gemm","moe"]', --var 'models=["Qwen/Qwen3-32B"]' and --var 'tp=[1,2]'
# choose what to collect. Grids are in modules/trtllm and modules/common, shapes
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

variable "collector_root" {
  type        = string
  default     = ""
  description = "A checkout of aiconfigurator, whose collectors measure the ops."
}

system "this" { name = var.system }

runtime "trtllm" {
  kind           = "python"
  framework      = "TRTLLM"
  package        = "tensorrt_llm"
  requires       = ">=1.3.0rc20"
  env            = module.selection.runtime_env
  collector_root = var.collector_root
}

# Experts, sparse attention and MiniMax attention need a later candidate.
runtime "trtllm_rc23" {
  kind           = "python"
  framework      = "TRTLLM"
  package        = "tensorrt_llm"
  requires       = ">=1.3.0rc23"
  env            = module.selection.runtime_env
  collector_root = var.collector_root
}

module "selection" {
  source  = "./modules/selection"
  system  = system.this
  backend = "trtllm"
  ops     = var.ops
  models  = var.models
  tp      = var.tp
  cases   = var.cases
}

module "trtllm" {
  source    = "./modules/trtllm"
  selection = module.selection
}

module "pipeline" {
  source   = "./modules/pipeline"
  for_each = { base = runtime.trtllm, next = runtime.trtllm_rc23 }

  runtime     = each.value
  system      = system.this
  grids       = { for op, g in module.trtllm.grids : op => g if module.selection.runtime_of[op] == each.key }
  bindings    = module.selection.bindings
  unsupported = module.trtllm.unsupported
  power       = var.power
  coverage    = var.coverage
  layout      = var.layout
  backend     = "trtllm"

  reference = var.reference
}

output "files" {
  description = "The exported files by table."
  value       = merge([for name, p in module.pipeline : p.files]...)
}
