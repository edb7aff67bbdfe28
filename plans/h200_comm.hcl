# Communication between GPUs: NCCL's collectives on one node or several, and copies between the GPUs of a node. The
# all-reduce of frameworks is measured by plans/h200_allreduce.hcl.
#
#   aicplan plan  plans/h200_comm.hcl                     what would be collected; no GPU needed
#   aicplan apply plans/h200_comm.hcl --var 'gpus=[2,4]'   collect on a node of 4 GPUs
#
# Across nodes, as a job of Slurm that srun starts the ranks in:
#
#   aicplan apply plans/h200_comm.hcl --var executor=slurm --var nodes=16 --var gpus_per_node=4 --var 'gpus=[2,4,8,16,32,48,64]'
#
# Every number of GPUs fills as few nodes as it can. Copies between peers work inside a node only, and are left out
# then.
#
# Needs libnccl.so.2 and NVRTC, which every framework's environment has; no MPI, no nccl-tests, no Python.

include = ["modules/database/executors.hcl", "modules/database/system.hcl", "modules/comm/choices.hcl", "modules/pipeline/tables.hcl"]

variable "nodes" {
  default     = 1
  description = "Nodes whose GPUs communicate."

  validation {
    condition     = var.nodes >= 1 && floor(var.nodes) == var.nodes
    error_message = "nodes is a whole number from 1"
  }
}

variable "gpus_per_node" {
  type        = number
  default     = null
  description = "GPUs that communicate on each node, where there are several; those of the system where it is left out."
}

variable "partition" {
  type        = string
  default     = null
  description = "The partition that jobs of Slurm go to."
}

variable "time" { default = "02:00:00" } # Time limit of a job, as Slurm writes it.

variable "env" {
  type        = map(string)
  default     = {}
  description = "Environment of the worker, such as { NCCL_ALGO = \"Ring\" }. NVLink multicast stays off unless NCCL_NVLS_ENABLE says otherwise."
}

# Seconds that a rank may take for one step of a case before its communicator is aborted.
variable "rank_deadline" { default = 15 }

locals {
  per_node = coalesce(var.gpus_per_node, system.this.node.num_gpus_per_node)
}

runtime "nccl" {
  kind          = "nccl"
  framework     = "NCCL"
  env           = var.env
  rank_deadline = var.rank_deadline
  nodes         = var.nodes > 1 ? var.nodes : null
  gpus_per_node = var.nodes > 1 ? local.per_node : null
}

# One job that has all nodes: a communicator cannot be split into shards.
executor "slurm" {
  kind           = "slurm"
  account        = var.account
  partition      = var.partition
  time           = var.time
  nodes          = var.nodes
  tasks_per_node = local.per_node
  gpus_per_node  = local.per_node
}

module "comm" {
  source = "./modules/comm"

  runtime  = runtime.nccl
  executor = var.executor == "slurm" ? executor.slurm : executor.local
  system   = system.this
  gpus     = var.gpus
  nodes    = var.nodes
  per_node = local.per_node
  methods  = var.methods
  tables   = var.tables
  coverage = var.coverage
  layout   = var.layout
}

output "files" { value = module.comm.files } # the exported files
