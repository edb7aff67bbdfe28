# The op database of SGLang: 28 ops, 348,202 tasks on an H200.
#
#   aicplan plan  plans/h200_sglang.hcl                          what would be collected; no GPU needed
#   aicplan plan  plans/h200_sglang.hcl --var system=b200_sxm     the same for another GPU
#   aicplan apply plans/h200_sglang.hcl --var collector_root=DIR  collect, inside SGLang's container
#
# --var 'ops=["gemm","moe"]', --var 'models=["Qwen/Qwen3-32B"]' and --var 'tp=[1,2]'
# choose what to collect. Variables and stages are in modules/database, grids in
# modules/sglang and modules/common, shapes of models in modules/models.

include = ["modules/database/database.hcl"]

locals {
  backend     = "sglang"
  runtimes    = { base = runtime.sglang, next = runtime.sglang_0516 }
  grids       = module.sglang.grids
  unsupported = module.sglang.unsupported
}

runtime "sglang" {
  kind           = "python"
  framework      = "SGLang"
  package        = "sglang"
  requires       = coalesce(module.selection.pin, "==0.5.14")
  env            = module.selection.runtime_env
  collector_root = var.collector_root
}

# Kimi delta attention and MiniMax attention came with a later release.
runtime "sglang_0516" {
  kind           = "python"
  framework      = "SGLang"
  package        = "sglang"
  requires       = coalesce(module.selection.pin, ">=0.5.16")
  env            = module.selection.runtime_env
  collector_root = var.collector_root
}

module "sglang" {
  source    = "./modules/sglang"
  selection = module.selection
}
