# Predictions of aiconfigurator, or of its successor aisimulate, for workloads: on its own tables, on those that this
# plan exports (reads), or on a folder of tables (systems_paths). Each is a row with
# the package's version, the arguments that it was asked with and the digest of the
# tables. Exports that it reads have the layout families and a system_spec.

variable "python" { default = "python3" }         # the interpreter that has the package
variable "package" { default = "aiconfigurator" } # the package to ask: aiconfigurator, or its successor aisimulate

variable "requires" {
  type        = string
  default     = null
  description = "versions of the package; null takes those that this module was tried with"
}

variable "model_path" { type = string } # the model as aiconfigurator knows it, or a folder with its config.json
variable "system" { default = "h200_sxm" }
variable "backend" { default = "vllm" }
variable "backend_version" { default = "" } # version of the tables; empty takes the newest

# agg for a server under load; static, static_ctx and static_gen for single steps
variable "estimate_mode" { default = "agg" }

# folders of tables, as --systems-paths takes them; empty for the package's own
variable "systems_paths" { default = "" }

# the exports of the tables; then systems_paths is the output folder, and a table that changes is predicted from anew
variable "reads" { default = [] }

variable "tree" { default = "" } # what the folder in systems_paths is, for the rows; its content counts in any case

variable "workloads" {
  type        = any
  description = "objects with isl, osl, concurrency and tensor_parallel_size, and options of their own"

  validation {
    condition = alltrue([for w in var.workloads : try(
      alltrue([for n in [w.isl, w.osl, w.concurrency, w.tensor_parallel_size] : n >= 1 && n == floor(n)]), false
    )])
    error_message = "workloads are objects with isl, osl, concurrency and tensor_parallel_size, each a whole number from 1"
  }
}

# further arguments by aiconfigurator's names of them: {moe_ep_size = 8} for a model with experts, {ctx_tokens = 8192},
# or what the mode disagg asks for; those of a workload win
variable "options" { default = {} }

locals {
  # Of tables those of the system and the lanes of attention, and of a model's folder its config.
  folders = local.exported ? [] : [for p in split(",", var.systems_paths) : p if p != "" && p != "default"]
  read = concat(flatten([for p in local.folders : ["${p}/${var.system}.yaml", "${p}/data/${var.system}", "${p}/attention_lane_defaults.yaml"]]),
  startswith(var.model_path, "/") || startswith(var.model_path, ".") ? ["${var.model_path}/config.json", "${var.model_path}/hf_quant_config.json"] : [])
  exported = length(var.reads) > 0
  options  = [for w in var.workloads : merge(var.options, try(w.options, {}))]
  # A column only where there are any.
  optional = anytrue([for o in local.options : length(keys(o)) > 0])
}

runtime "aiconfigurator" {
  kind      = "python"
  framework = "AICONFIGURATOR"
  python    = var.python
  package   = var.package
  requires  = coalesce(var.requires, { aiconfigurator = ">=0.12", aisimulate = ">=0.13.0.dev1" }[var.package])
  env       = { PREDICT_PACKAGE = var.package }
  device    = "none"
  path      = ["predict.py"]
}

grid "workloads" {
  op = "predict"

  axis "model_path" { values = [var.model_path] }
  axis "system_name" { values = [var.system] }
  axis "backend" { values = [var.backend] }
  axis "backend_version" { values = [var.backend_version] }
  axis "estimate_mode" { values = [var.estimate_mode] }
  axis "systems_paths" { values = [var.systems_paths] }
  axis "tree" { values = [local.exported ? "exports" : var.tree] }

  rows "workload" {
    values = [for i, w in var.workloads : merge({
      for c in ["isl", "osl", "concurrency", "tensor_parallel_size"] : c => w[c]
    }, local.optional ? { options = jsonencode(local.options[i]) } : {})]
  }
}

collect "predicted" {
  description = "ask aiconfigurator"
  grid        = grid.workloads
  runtime     = runtime.aiconfigurator
  reads       = local.exported ? var.reads : null
  reads_files = length(local.read) > 0 ? local.read : null

  # Tables that lack what one of them needs may have all for the others.
  deadline { first = "5m" } # it reads its tables, which takes seconds
  breaker {
    after    = 20
    group_by = ["tensor_parallel_size"]
  }
}

output "predicted" { value = collect.predicted }
