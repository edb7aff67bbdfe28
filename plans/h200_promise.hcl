# Does the database keep its promise? Tables are collected and exported, workloads are predicted by aiconfigurator on
# these tables and on its own, and served by vLLM on the same GPUs; gates compare. Everything is kept, so that a run
# that was stopped goes on.
#
#   aicplan plan  plans/h200_promise.hcl
#   aicplan apply plans/h200_promise.hcl --var collector_root=DIR --var shapes=$PWD/plans/experiments \
#       --var predict_python=VENV/bin/python
#
# collector_root is a checkout of aiconfigurator, whose collectors measure the ops. Without it, tree may name a folder
# of tables in the layout families; without both only the package's own tables are asked.

include = ["modules/database/system.hcl"]

variable "collector_root" { default = "" } # a checkout of aiconfigurator: the tables are collected by this plan

# the ops to collect: what the models need and the package does not estimate without a table
variable "ops" { default = ["gemm", "attention_context", "attention_generation"] }

# the formats of weights and caches that the served models have; others are not collected
variable "formats" { default = ["bfloat16"] }

variable "uninitialised" {
  type        = string
  default     = null
  description = "what the collectors leave uninitialised: random fills it in all ops, left in none; without it the bindings say, random for the weights of products"
}

variable "published" {
  type        = map(string)
  default     = {}
  description = "published tables that complete the tree, by name: --var 'published={custom_allreduce_perf=\"FILE.parquet\"}' in place of one that is collected for tensor parallelism"
}

variable "tables_version" { default = "0.24.0" } # the version folder of published tables
variable "tree" { default = "" }                 # a folder of tables that was exported from collects on these GPUs before
variable "tree_digest" { default = "" }          # what the tree is, for the rows; its content counts in any case

variable "models" {
  description = "the models: a name, aiconfigurator's name for it, and a folder with its config.json; options are those of the module predict, such as {moe_ep_size = 2}"

  default = {
    llama = { predict = "meta-llama/Meta-Llama-3.1-8B", shape = "llama-3.1-8b" }
    qwen3 = { predict = "Qwen/Qwen3-8B", shape = "qwen3-8b" }
  }
}

variable "tp" {
  default     = [1, 2]
  description = "numbers of GPUs that a server takes; [1] on a machine with one GPU, which has no all-reduce"

  validation {
    condition     = length(var.tp) > 0 && alltrue([for n in var.tp : n >= 1 && n == floor(n)])
    error_message = "tp is a list of whole numbers of GPUs, one at least"
  }
}

variable "isl" {
  default = [256, 1024, 4096, 8192]

  validation {
    condition     = length(var.isl) > 0 && alltrue([for n in var.isl : n >= 1 && n == floor(n)])
    error_message = "isl is a list of whole numbers of input tokens, one at least"
  }
}

variable "osl" {
  default = 128

  validation {
    condition     = var.osl >= 2 && var.osl == floor(var.osl)
    error_message = "osl is a whole number of output tokens from 2: tpot is what those after the first take"
  }
}

variable "concurrency" {
  default = [1, 8, 32, 128]

  validation {
    condition     = length(var.concurrency) > 0 && alltrue([for n in var.concurrency : n >= 1 && n == floor(n)])
    error_message = "concurrency is a list of whole numbers of open requests, one at least"
  }
}

variable "open_tokens" {
  type        = number
  default     = null
  description = "tokens that requests which are open at once may have, by input and output; workloads with more are left out"

  validation {
    condition     = var.open_tokens == null ? true : var.open_tokens >= min(var.concurrency...) * (min(var.isl...) + var.osl)
    error_message = "open_tokens leaves no workload: those that are open at once have concurrency * (isl + osl) tokens"
  }
}

variable "batches" {
  default     = [1, 8, 32]
  description = "the batches of static steps"

  validation {
    condition     = length(var.batches) > 0 && alltrue([for n in var.batches : n >= 1 && n == floor(n)])
    error_message = "batches is a list of whole numbers, one at least"
  }
}

variable "prefill_tokens" { default = 65536 } # tokens that a static step may prefill; batches with more are left out
variable "step_iterations" { default = 5 }

variable "traced" { default = [{ isl = 1024, batch = 8 }] } # static steps whose kernels are traced: input tokens and batch

variable "rounds" { default = 4 } # requests for each one that is open at once

variable "ramp" {
  type        = number
  default     = null
  description = "seconds that the first requests of a workload are spread over; none: all at once"
}

variable "predict_python" { default = "python3" } # the interpreter that has the package to ask

# the package to ask: aiconfigurator, or its successor aisimulate
variable "predict_package" { default = "aiconfigurator" }

variable "serve_python" { default = "python3" } # the interpreter that has vLLM
variable "program" { default = ["vllm", "serve"] }
variable "shapes" { default = "" } # the absolute path of plans/experiments, where the folders of the shapes are

variable "server_args" {
  type        = list(string)
  default     = []
  description = "further arguments of the server"
}

# the same for the offline engine that does static steps, by the names of vllm.LLM
variable "engine_args" { default = {} }

variable "server_env" {
  type    = map(string)
  default = {}
}

locals {
  ours   = var.collector_root != "" || var.tree != ""
  models = { for name, m in var.models : name => m if local.ours }
  # By tables, model and whether workloads are under load or static steps.
  predictions = { for p in flatten([
    for tables, models in { published = var.models, ours = local.models } : [for name, m in models : [
      for view in ["load", "steps"] : { key = "${tables}/${name}/${view}", tables = tables, model = m, view = view }
    ]]
  ]) : p.key => p }
  # Tensor parallelism reduces between the GPUs, and the package has no formula for it.
  reduced = [for n in var.tp : n if n >= 2 && var.collector_root != "" && !contains(keys(var.published), "custom_allreduce_perf")]
  tables  = concat(flatten([for t in module.tables : t.exports]), flatten([for t in module.allreduce_tables : t.exports]), values(export.published))
  # Static steps: the package asks for batches as it does for concurrencies.
  points = { for view, sizes in { steps = var.batches, load = var.concurrency } : view => flatten([for tp in var.tp : [for n in var.isl : [
    for c in sizes : { tensor_parallel_size = tp, isl = n, osl = var.osl, concurrency = c }
  ]]]) }
  steps       = local.points.steps
  workloads   = [for w in local.points.load : w if var.open_tokens == null ? true : w.concurrency * (w.isl + w.osl) <= var.open_tokens]
  trace_steps = [for w in local.steps : w if contains([for t in var.traced : "${t.isl} ${t.batch}"], "${w.isl} ${w.concurrency}")]
  traced      = length(local.trace_steps) > 0
}

# What is predicted from: tables of these GPUs.

runtime "collectors" {
  kind           = "python"
  framework      = "VLLM"
  package        = "vllm"
  python         = var.serve_python
  env            = module.selection.runtime_env
  collector_root = var.collector_root
  uninitialised  = var.uninitialised
}

module "selection" {
  source  = "./modules/selection"
  system  = system.this
  backend = "vllm"
  ops     = var.ops
  models  = [for m in var.models : m.predict]
  tp      = var.tp
}

module "ops" {
  source    = "./modules/vllm"
  selection = module.selection
  formats   = var.formats
}

module "tables" {
  source   = "./modules/pipeline"
  for_each = var.collector_root == "" ? {} : { vllm = runtime.collectors }

  runtime     = each.value
  system      = system.this
  grids       = { for op, g in module.ops.grids : op => g if g != null }
  bindings    = module.selection.bindings
  unsupported = module.ops.unsupported
  layout      = "families"
  backend     = "vllm"
}

# vLLM's own all-reduce, with the settings of the server. One worker has all GPUs: the
# collector starts a process on each of them.
runtime "allreduce" {
  kind           = "python"
  framework      = "VLLM"
  package        = "vllm"
  python         = var.serve_python
  env            = merge(module.selection.runtime_env, var.server_env)
  collector_root = var.collector_root
  one_worker     = true
}

module "allreduce" {
  source  = "./modules/allreduce"
  backend = "vllm"
  system  = system.this
  gpus    = var.tp
}

module "allreduce_tables" {
  source   = "./modules/pipeline"
  for_each = length(local.reduced) > 0 ? { vllm = runtime.allreduce } : {}
  runtime  = each.value
  system   = system.this
  grids    = module.allreduce.grids
  bindings = module.allreduce.bindings
  layout   = "families"
  backend  = "vllm"
}

import "published" {
  for_each = var.collector_root == "" ? {} : var.published
  path     = each.value
}

export "published" {
  description = "tables of others that complete the tree"
  for_each    = import.published
  input       = each.value
  table       = each.key
  layout      = "families"
  system      = system.this
  system_spec = true
  backend     = "vllm"
  version     = var.tables_version
}

# The predictions: of workloads under load, and of static steps.

module "predictions" {
  source   = "./modules/predict"
  for_each = local.predictions

  python        = var.predict_python
  package       = var.predict_package
  system        = var.system
  model_path    = each.value.model.predict
  options       = try(each.value.model.options, {})
  estimate_mode = each.value.view == "steps" ? "static" : "agg"
  reads         = each.value.tables == "ours" ? local.tables : []
  systems_paths = each.value.tables == "ours" ? var.tree : ""
  tree          = each.value.tables == "ours" ? var.tree_digest : ""
  workloads     = each.value.view == "steps" ? local.steps : local.workloads
}

# What is measured.

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

  step_workloads    = local.steps
  prefill_workloads = local.steps
  step_iterations   = var.step_iterations
  engine_args       = var.engine_args
  prefill_tokens    = var.prefill_tokens
  telemetry         = telemetry.gpus
  trace_workloads   = local.trace_steps
}

# What the GPUs did meanwhile: power and clocks are part of an operating point.
telemetry "gpus" { interval = "100ms" }

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
  telemetry   = telemetry.gpus

  load {
    prompt           = "token_ids"
    vocabulary       = 100000
    seed             = 7
    concurrency_ramp = var.ramp
  }
}

# What is compared. The package's own tables and single ops are compared for information: these gates only warn.

locals {
  point = ["tensor_parallel_size", "isl", "osl", "concurrency"]
  views = {
    # Under load, latency is the time of a whole request.
    load  = { key = local.point, columns = ["ttft", "tpot", "latency"], p50 = 0.05, p95 = 0.15 }
    steps = { key = local.point, columns = ["ttft", "tpot"], p50 = 0.03, p95 = 0.08 }
    # The prefill of a static step follows decode steps, which leave the GPU a higher clock than rows of
    # sustained kernels have. These prefills follow each other.
    prefills = { key = ["tensor_parallel_size", "isl", "concurrency"], columns = ["ttft"], p50 = 0.03, p95 = 0.08 }
    # Where errors of static steps come from, by traces of their kernels. The other gates do not wait for a profiler.
    ops = { key = local.point, columns = ["ttft", "tpot"], p50 = 0.03, p95 = 0.08 }
  }

  measured = { for name, m in var.models : name => {
    load     = collect.measured[name]
    steps    = module.vllm[name].steps[0]
    prefills = module.vllm[name].prefills[0]
    ops      = module.vllm[name].steps[0]
  } }
  comparisons = { for c in flatten([
    for tables, models in { published = var.models, ours = local.models } : [for model, m in models : [
      for view, limits in local.views : merge(limits, { tables = tables, model = model, view = view }) if view != "ops" || local.traced
    ]]
  ]) : "${c.tables}/${c.model}/${c.view}" => c }
}

gate "prediction" {
  for_each = local.comparisons
  input    = local.measured[each.value.model][each.value.view]

  check "prediction" {
    predicted = module.predictions["${each.value.tables}/${each.value.model}/${each.value.view == "load" ? "load" : "steps"}"].predicted
    traces    = each.value.view == "ops" ? module.vllm[each.value.model].traces[0] : null
    key       = each.value.key
    columns   = each.value.columns
    p50       = each.value.p50
    p95       = each.value.p95
    severity  = each.value.tables == "published" || each.value.view == "ops" ? "warn" : "fail"
  }
}

gate "served" {
  for_each = local.models
  input    = collect.measured[each.key]
  check "rows" { condition = error_rate == 0 }
}

report "promise" {
  title  = "Predicted and measured: vLLM on ${var.system}"
  inputs = concat(values(collect.measured), [for name, m in var.models : module.vllm[name].steps[0]], [for name, m in var.models : module.vllm[name].prefills[0]])
  file   = "promise"
}
