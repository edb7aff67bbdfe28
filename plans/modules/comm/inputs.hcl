# The communication tables of one node or of several, from grids to perf files.

variable "runtime" { description = "A runtime of kind nccl." }
variable "system" { description = "The system that the rows are for." }
variable "executor" { default = null } # Where the cases are measured; here where it is left out.
variable "nodes" { default = 1 }       # Nodes whose GPUs communicate: those of the runtime.

variable "per_node" {
  type        = number
  default     = null
  description = "GPUs that communicate on each node; those of the system where it is left out."
}

variable "coverage" { default = 0.99 } # Share of the planned cases that must have a row.
variable "layout" { default = "flat" } # Layout of the exported files: flat, systems or families.
