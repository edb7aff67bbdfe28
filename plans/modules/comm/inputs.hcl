# The communication tables of one node or of several, from grids to perf files.

variable "runtime" { description = "A runtime of kind nccl." }

variable "system" { description = "The system that the rows are for." }

variable "executor" {
  default     = null
  description = "Where the cases are measured; here where it is left out."
}

variable "nodes" {
  type        = number
  default     = 1
  description = "Nodes whose GPUs communicate: those of the runtime."
}

variable "per_node" {
  type        = number
  default     = null
  description = "GPUs that communicate on each node; those of the system where it is left out."
}

variable "gpus" {
  type        = list(number)
  default     = [2, 4, 8]
  description = "Numbers of GPUs that communicate."
}

variable "methods" {
  type        = list(string)
  default     = ["graph"]
  description = "How collectives are timed: graph as serving replays them, eager as nccl-tests does."
}

variable "tables" {
  type        = list(string)
  default     = ["nccl", "p2p"]
  description = "What to measure."
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
