# The op database of TensorRT-LLM: 24 ops, 315,142 tasks on an H200.
#
#   aicplan plan  plans/h200_trtllm.hcl                          what would be collected; no GPU needed
#   aicplan plan  plans/h200_trtllm.hcl --var system=b200_sxm     the same for another GPU
#   aicplan apply plans/h200_trtllm.hcl --var collector_root=DIR  collect, inside TensorRT-LLM's container
#
# --var 'ops=["gemm","moe"]', --var 'models=["Qwen/Qwen3-32B"]' and --var 'tp=[1,2]'
# choose what to collect. Variables and stages are in modules/database, grids in
# modules/trtllm and modules/common, shapes of models in modules/models.

include = ["modules/database/database.hcl"]

locals {
  backend     = "trtllm"
  runtimes    = { base = runtime.trtllm, next = runtime.trtllm_rc23 }
  grids       = module.trtllm.grids
  unsupported = module.trtllm.unsupported
}

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

module "trtllm" {
  source    = "./modules/trtllm"
  selection = module.selection
}
