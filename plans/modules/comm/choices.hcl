# What is measured, for the module and for plans of it.

variable "gpus" { default = [2, 4, 8] } # Numbers of GPUs that communicate; the largest must be present.

variable "methods" {
  default     = ["graph"]
  description = "How collectives are timed: graph as serving replays them, eager as nccl-tests does."

  validation {
    condition     = length(setsubtract(toset(var.methods), toset(["eager", "graph"]))) == 0
    error_message = "a method is \"eager\" or \"graph\""
  }
}

variable "tables" { default = ["nccl", "p2p"] } # What to measure.
