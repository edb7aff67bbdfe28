# Does the database keep its promise? Workloads are predicted by aiconfigurator, on a
# tree that was collected here and on its own tables, and served by vLLM on the same
# GPUs; a gate compares.
#
#   aicplan plan  plans/h200_promise.hcl
#   aicplan apply plans/h200_promise.hcl -var tree=DIR -var predict_python=VENV/bin/python
#
# tree is a folder of tables in the layout families: what
#   aicplan apply plans/h200_vllm.hcl -var layout=families -var collector_root=... -out-dir DIR
# wrote. Without it only the package's own tables are asked.

aicplan {
  required_version = ">= 0.1"
}

variable "tree" {
  type        = string
  default     = ""
  description = "a folder of tables that was exported from collects on these GPUs"
}

variable "tree_digest" {
  type        = string
  default     = ""
  description = "what the tree is, for the rows: change it when the tree has changed"
}

variable "system" {
  type    = string
  default = "h200_sxm"
}

variable "models" {
  type        = any
  description = "the models: a name, aiconfigurator's name for it, and a folder with its config.json"

  default = {
    llama = { predict = "meta-llama/Meta-Llama-3.1-8B", shape = "llama-3.1-8b" }
    qwen3 = { predict = "Qwen/Qwen3-8B", shape = "qwen3-8b" }
  }
}

variable "tp" {
  type    = list(number)
  default = [1, 2]
}

variable "isl" {
  type    = list(number)
  default = [256, 1024, 4096, 8192]
}

variable "osl" {
  type    = number
  default = 128
}

variable "concurrency" {
  type    = list(number)
  default = [1, 8, 32, 128]
}

variable "rounds" {
  type        = number
  default     = 4
  description = "requests for each one that is open at once"
}

variable "predict_python" {
  type        = string
  default     = "python3"
  description = "the interpreter that has aiconfigurator"
}

variable "serve_python" {
  type        = string
  default     = "python3"
  description = "the interpreter that has vLLM"
}

variable "program" {
  type    = list(string)
  default = ["vllm", "serve"]
}

variable "shapes" {
  type        = string
  default     = ""
  description = "the absolute path of plans/experiments, where the folders of the shapes are"
}

variable "server_args" {
  type    = list(string)
  default = []
}

variable "server_env" {
  type    = map(string)
  default = {}
}

locals {
  workloads = flatten([for tp in var.tp : [for n in var.isl : [for c in var.concurrency : {
    tensor_parallel_size = tp
    isl                  = n
    osl                  = var.osl
    concurrency          = c
  }]]])
}

module "published" {
  source   = "./modules/predict"
  for_each = var.models

  python     = var.predict_python
  system     = var.system
  model_path = each.value.predict
  workloads  = local.workloads
}

module "ours" {
  source   = "./modules/predict"
  for_each = var.tree == "" ? {} : var.models

  python        = var.predict_python
  system        = var.system
  model_path    = each.value.predict
  systems_paths = var.tree
  tree          = var.tree_digest
  workloads     = local.workloads
}

module "vllm" {
  source   = "./modules/serving/vllm"
  for_each = var.models

  model       = "${var.shapes}/${each.value.shape}"
  served_name = each.key
  program     = var.program
  python      = var.serve_python
  dummy       = true
  args        = var.server_args
  env         = var.server_env
}

grid "served" {
  op = "completions"

  axis "pipeline_parallel_size" { values = [1] }
  axis "seq_len" { values = [max(var.isl...) + var.osl] }
  rows "workload" { values = local.workloads }
  derive "requests" { value = max(8, concurrency * var.rounds) }
  derive "warmup_requests" { value = concurrency }
}

collect "measured" {
  description = "the same workloads on vLLM, with random weights"
  for_each    = var.models
  grid        = grid.served
  runtime     = module.vllm[each.key].runtime

  load {
    prompt     = "token_ids"
    vocabulary = 100000
    seed       = 7
  }
}

gate "published" {
  description = "the package's own tables"
  for_each    = var.models
  input       = collect.measured[each.key]

  check "prediction" {
    predicted = module.published[each.key].predicted
    key       = ["tensor_parallel_size", "isl", "osl", "concurrency"]
    severity  = "warn"
  }
}

gate "ours" {
  description = "tables that were collected on these GPUs"
  for_each    = var.tree == "" ? {} : var.models
  input       = collect.measured[each.key]

  check "request_errors" {}
  check "prediction" {
    predicted = module.ours[each.key].predicted
    key       = ["tensor_parallel_size", "isl", "osl", "concurrency"]
  }
}
