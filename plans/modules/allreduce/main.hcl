# All-reduce as a framework does it between the GPUs of one node: its own kernels for small messages and what it falls
# back to for large ones. aiconfigurator's collector measures it, in a process for each GPU.

variable "backend" { type = string } # Whose all-reduce: vllm, sglang or trtllm.
variable "system" { description = "The system that the rows are for." }
variable "gpus" { default = [2, 4, 8] } # Numbers of GPUs that take part.

variable "launcher" {
  type        = list(string)
  default     = null
  description = "The command that starts the ranks, with {ranks} in its words; null takes the framework's own."
}

locals {
  # The collector doubles the size from the smallest up to, and not including, its end.
  smallest = 128
  end      = 1073741824
  sizes    = [for p in range(30) : pow(2, p) if pow(2, p) >= local.smallest && pow(2, p) < local.end]

  # TensorRT-LLM's ranks find each other by MPI. For the others, aicplan sets the environment that torchrun sets.
  mpirun   = ["mpirun", "-n", "{ranks}", "--allow-run-as-root"]
  launcher = var.launcher != null ? var.launcher : var.backend == "trtllm" ? local.mpirun : null
}

# One run of the collector is a case: one number of GPUs, all sizes.
grid "custom_allreduce" {
  description = "all-reduce by ${var.backend}, in a process for each GPU"
  perf_table  = "custom_allreduce_perf"

  axis "allreduce_dtype" { values = ["bfloat16"] }
  axis "num_gpus" { values = var.gpus }
  sweep "message_size" { values = local.sizes }

  filter "two_gpus" {
    keep   = num_gpus >= 2
    reason = "one GPU has nobody to reduce with"
  }
  filter "one_node" {
    keep   = num_gpus <= var.system.node.num_gpus_per_node
    reason = "a node of this system has fewer GPUs"
  }
}

output "grids" { value = grid } # the grid by op

output "bindings" {
  description = "How a python runtime reaches the collector, by op."
  value = {
    custom_allreduce = merge(
      {
        module        = "collector.network.collect_all_reduce"
        run           = "allreduce_benchmark"
        perf_filename = "custom_allreduce_perf.txt"
        ranks         = "num_gpus"
        args          = [{ value = var.backend }, "allreduce_dtype", { value = "${local.smallest},${local.end},2" }, false]
      },
      local.launcher != null ? { launcher = local.launcher } : {},
    )
  }
}
