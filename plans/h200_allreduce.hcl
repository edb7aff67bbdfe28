# All-reduce between the GPUs of a node as vLLM, SGLang or TensorRT-LLM do it:
# 23 message sizes for each number of GPUs, by aiconfigurator's own collector.
#
#   aicplan plan  plans/h200_allreduce.hcl                                            what would be collected; no GPU needed
#   aicplan apply plans/h200_allreduce.hcl --var collector_root=DIR --var 'gpus=[2]'    vLLM's, inside its container
#   aicplan apply plans/h200_allreduce.hcl --var collector_root=DIR --var backend=trtllm
#
# plans/h200_comm.hcl measures NCCL without a framework.

include = ["modules/database/system.hcl", "modules/pipeline/tables.hcl"]

variable "backend" {
  default     = "vllm"
  description = "Whose all-reduce: vllm, sglang or trtllm."

  validation {
    condition     = contains(["vllm", "sglang", "trtllm"], var.backend)
    error_message = "backend is \"vllm\", \"sglang\" or \"trtllm\""
  }
}

variable "gpus" { default = [2, 4, 8] }    # Numbers of GPUs that take part.
variable "collector_root" { default = "" } # A checkout of aiconfigurator, whose collector measures.

variable "launcher" {
  type        = list(string)
  default     = null
  description = "The command that starts the ranks, with {ranks} in its words; mpirun for TensorRT-LLM, none for the others."
}

variable "env" {
  type        = map(string)
  default     = {}
  description = "Environment of the ranks, such as { VLLM_ALLREDUCE_USE_SYMM_MEM = \"0\" }."
}

# One worker has all GPUs: the collector starts a process on each of them.
runtime "vllm" {
  kind           = "python"
  framework      = "VLLM"
  package        = "vllm"
  requires       = "==0.24.0"
  collector_root = var.collector_root
  env            = var.env
  one_worker     = true
}

runtime "sglang" {
  kind           = "python"
  framework      = "SGLang"
  package        = "sglang"
  requires       = "==0.5.14"
  collector_root = var.collector_root
  env            = var.env
  one_worker     = true
}

runtime "trtllm" {
  kind           = "python"
  framework      = "TRTLLM"
  package        = "tensorrt_llm"
  requires       = ">=1.3.0rc20"
  collector_root = var.collector_root
  env            = var.env
  one_worker     = true
}

module "allreduce" {
  source   = "./modules/allreduce"
  backend  = var.backend
  system   = system.this
  gpus     = var.gpus
  launcher = var.launcher
}

module "pipeline" {
  source   = "./modules/pipeline"
  runtime  = { vllm = runtime.vllm, sglang = runtime.sglang, trtllm = runtime.trtllm }[var.backend]
  system   = system.this
  grids    = module.allreduce.grids
  bindings = module.allreduce.bindings
  coverage = var.coverage
  layout   = var.layout
  backend  = var.backend
}

output "files" { value = module.pipeline.files } # the exported files by table
