variable "coverage" {
  default     = 0.99
  description = "Share of the planned cases that must have a row for their table to be exported."
}

variable "layout" {
  default     = "flat"
  description = "Layout of the exported files: flat, systems or families."
}
