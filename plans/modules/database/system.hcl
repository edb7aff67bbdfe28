# The system that a plan is for.

variable "system" { default = "h200_sxm" } # The GPU that the rows are for: one of aicplan systems.

system "this" { name = var.system }
