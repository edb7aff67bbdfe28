# Communication between the GPUs of one node: NCCL's collectives, two all-reduce
# kernels over peer memory, and copies between peers.
#
#   aicplan plan  plans/h200_comm.hcl                     what would be collected; no GPU needed
#   aicplan apply plans/h200_comm.hcl -var 'gpus=[2,4]'   collect on a node of 4 GPUs
#
# Needs libnccl.so.2 and NVRTC, which every framework's environment has; no MPI,
# no nccl-tests, no Python.

aicplan {
  required_version = ">= 0.1"
}

variable "system" {
  type        = string
  default     = "h200_sxm"
  description = "The system that the rows are for: one of aicplan systems list."
}

variable "gpus" {
  type        = list(number)
  default     = [2, 4, 8]
  description = "Numbers of GPUs that communicate; the largest must be present."
}

variable "methods" {
  type        = list(string)
  default     = ["graph"]
  description = "How collectives are timed: graph as serving replays them, eager as nccl-tests does."

  validation {
    condition     = length(setsubtract(toset(var.methods), toset(["eager", "graph"]))) == 0
    error_message = "a method is \"eager\" or \"graph\""
  }
}

variable "tables" {
  type        = list(string)
  default     = ["nccl", "custom_allreduce", "p2p"]
  description = "What to measure."
}

variable "env" {
  type        = map(string)
  default     = {}
  description = "Environment of the worker, such as { NCCL_ALGO = \"Ring\" }. NVLink multicast stays off unless NCCL_NVLS_ENABLE says otherwise."
}

variable "fault" {
  type        = string
  default     = ""
  description = "Something that goes wrong on purpose, to see that it costs one case: wrong_sum, hang or die, and where, as in \"die@op_name=all_reduce,num_gpus=2,message_size=1024\"."
}

variable "rank_deadline" {
  type        = number
  default     = 15
  description = "Seconds that a rank may take for one step of a case before its communicator is aborted."
}

variable "coverage" {
  type        = number
  default     = 0.99
  description = "Share of the planned cases that must have a row."
}

variable "layout" {
  type        = string
  default     = "flat"
  description = "Layout of the exported files: flat, systems or families."
}

system "this" {
  name = var.system
}

runtime "nccl" {
  kind          = "nccl"
  framework     = "NCCL"
  env           = var.env
  fault         = var.fault
  rank_deadline = var.rank_deadline
}

module "comm" {
  source = "./modules/comm"

  runtime  = runtime.nccl
  system   = system.this
  gpus     = var.gpus
  methods  = var.methods
  tables   = var.tables
  coverage = var.coverage
  layout   = var.layout
}

output "files" {
  description = "The exported files."
  value       = module.comm.files
}
