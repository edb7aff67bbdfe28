# Variables of the servers of all frameworks.

variable "model" {
  type        = string
  description = "a checkpoint's folder or name"
}

variable "python" {
  default     = "python3"
  description = "the interpreter that has the framework"
}

variable "args" {
  type        = list(string)
  default     = []
  description = "further arguments"
}

variable "env" {
  type    = map(string)
  default = {}
}

variable "tokenizer" {
  default     = ""
  description = "the folder of the model's tokenizer.json, for exact prompts"
}
