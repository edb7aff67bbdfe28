# Where plans with ranks on many GPUs run, for include. Such a plan has an executor "slurm" with what its jobs need.

variable "executor" {
  default     = "local"
  description = "local: here, or in the allocation that aicplan is called in; slurm: jobs of Slurm."

  validation {
    condition     = contains(["local", "slurm"], var.executor)
    error_message = "executor is \"local\" or \"slurm\""
  }
}

variable "account" { default = "" } # The account that jobs of Slurm are charged to.

executor "local" { kind = "local" }
