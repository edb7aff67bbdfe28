# Variables of the servers of all frameworks.

variable "model" { type = string }        # a checkpoint's folder or name
variable "python" { default = "python3" } # the interpreter that has the framework

variable "args" {
  type        = list(string)
  default     = []
  description = "further arguments"
}

variable "env" {
  type    = map(string)
  default = {}
}

variable "tokenizer" { default = "" } # the folder of the model's tokenizer.json, for exact prompts
