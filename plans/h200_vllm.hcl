# The op database of vLLM: 23 ops, 316,965 tasks on an H200.
#
#   aicplan plan  plans/h200_vllm.hcl                          what would be collected; no GPU needed
#   aicplan plan  plans/h200_vllm.hcl --var system=b200_sxm     the same for another GPU
#   aicplan apply plans/h200_vllm.hcl --var collector_root=DIR  collect, inside vLLM's container
#
# --var 'ops=["gemm","moe"]', --var 'models=["Qwen/Qwen3-32B"]' and --var 'tp=[1,2]'
# choose what to collect. Variables and stages are in modules/database, grids in
# modules/vllm and modules/common, shapes of models in modules/models.

include = ["modules/database/database.hcl"]

locals {
  backend     = "vllm"
  runtimes    = { base = runtime.vllm, preview = runtime.vllm_preview }
  grids       = module.vllm.grids
  unsupported = module.vllm.unsupported
}

variable "release" {
  default     = "0.24.0"
  description = "vLLM's version: 0.24.0, or 0.25.0, which the collectors of aiconfigurator 095f58a refuse"

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

module "vllm" {
  source    = "./modules/vllm"
  selection = module.selection
}
