variable "coverage" { default = 0.99 } # Share of the planned cases that must have a row for their table to be exported.
variable "layout" { default = "flat" } # Layout of the exported files: flat, systems or families.
