# Wide expert parallelism: attention and MLP of DeepSeek with random weights, DeepEP
# MoE on two GPUs and more, and dispatch and combine of DeepEP over nodes. Programs
# of SGLang's collectors start a process for each GPU, by srun, and their rows are
# merged by the keys of the tables.
#
#   aicplan plan  plans/wideep.hcl
#   aicplan apply plans/wideep.hcl -var executor=slurm -var 'node_counts=[1,2,4,8]' -var collectors=/path/to/collector/sglang -var model=/path/to/deepseek-v3
#
# Without SGLang and GPUs, a stand-in shows the way that rows take; they say so:
#
#   aicplan apply plans/wideep.hcl -var standin=true -var executor=slurm -var 'node_counts=[1,2]' -var gpus_per_node=2

variable "collectors" {
  type        = string
  default     = ""
  description = "Folder of the collectors: collect_wideep_attn.py and those beside it."
}

variable "model" {
  type        = string
  default     = "deepseek-ai/DeepSeek-V3"
  description = "A folder with the config of DeepSeek-V3; its weights are not needed."
}

variable "deepep" {
  type        = map(list(string))
  default     = {}
  description = "The commands of the DeepEP collectors, deepep_ll, deepep_normal and moe_a2a: words with {output}, {hidden_size}, {num_topk}, {num_experts} and {ranks}; {case} is all columns as JSON. Checkouts differ in them, so there is no default."
}

variable "python" {
  type    = string
  default = "python3"
}

variable "node_counts" {
  type        = list(number)
  default     = [1]
  description = "Numbers of nodes: of 1, 2, 4 and 8."

  validation {
    condition     = length(setsubtract(toset(var.node_counts), toset([1, 2, 4, 8]))) == 0
    error_message = "node_counts has numbers of 1, 2, 4 and 8"
  }
}

variable "gpus_per_node" {
  type    = number
  default = 8
}

variable "ops" {
  type        = list(string)
  default     = []
  description = "Ops to plan: attention, mlp, moe, deepep_ll, deepep_normal, moe_a2a; none means all."
}

variable "executor" {
  type        = string
  default     = "local"
  description = "slurm: a job for each number of nodes; local: in the allocation that this is called in."

  validation {
    condition     = contains(["local", "slurm"], var.executor)
    error_message = "executor is \"local\" or \"slurm\""
  }
}

variable "account" {
  type    = string
  default = ""
}

variable "time" {
  type    = string
  default = "02:00:00"
}

variable "poll" {
  type    = string
  default = "5s"
}

variable "launcher" {
  type        = list(string)
  default     = ["srun", "--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={gpus_per_node}", "--distribution=block", "--kill-on-bad-exit=1", "--overlap"]
  description = "What starts the ranks; empty where the collectors do so themselves."
}

variable "standin" {
  type        = bool
  default     = false
  description = "A stand-in instead of the collectors, which measures nothing."
}

locals {
  # The tools of the first collectors start with the words of their README.
  seed = {
    attention     = [var.python, "${var.collectors}/collect_wideep_attn.py", "--model_path", var.model, "--output_path", "{output}"]
    mlp           = [var.python, "${var.collectors}/collect_wideep_mlp.py", "--model_path", var.model, "--output_path", "{output}"]
    moe           = [var.python, "${var.collectors}/collect_wideep_deepep_moe.py", "--model_path", var.model, "--output_path", "{output}", "--tp_size", "{ranks}", "--ep_size", "{ranks}", "--num_experts", "{num_experts}"]
    deepep_ll     = lookup(var.deepep, "deepep_ll", local.none)
    deepep_normal = lookup(var.deepep, "deepep_normal", local.none)
    moe_a2a       = lookup(var.deepep, "moe_a2a", local.none)
  }
  none    = ["sh", "-c", "echo 'var.deepep has no command for this op' >&2; exit 1"]
  standin = [var.python, "{here}/standin.py", "{output}", "{case}"]
  # One process drives these; the others are a rank for each GPU.
  alone = ["attention", "mlp"]

  # By number of nodes and table.
  work = merge(
    contains(var.node_counts, 1) ? { for table, w in module.one.grids : "${table}/1" => merge(w, { table = table, executor = executor.one }) } : {},
    contains(var.node_counts, 2) ? { for table, w in module.two.grids : "${table}/2" => merge(w, { table = table, executor = executor.two }) } : {},
    contains(var.node_counts, 4) ? { for table, w in module.four.grids : "${table}/4" => merge(w, { table = table, executor = executor.four }) } : {},
    contains(var.node_counts, 8) ? { for table, w in module.eight.grids : "${table}/8" => merge(w, { table = table, executor = executor.eight }) } : {},
  )
  # Tables whose time is not called latency.
  time_of = {
    wideep_context_mlp_perf    = "avg_ms"
    wideep_generation_mlp_perf = "avg_ms"
    wideep_deepep_ll_perf      = "dispatch_avg_t_us"
    wideep_deepep_normal_perf  = "dispatch_transmit_us"
  }
  tables = toset([for name, w in local.work : w.table])
}

runtime "sglang" {
  kind      = "python"
  framework = var.standin ? "STANDIN" : "SGLang"
  package   = var.standin ? null : "sglang"
  python    = var.python
  path      = ["modules/wideep"]
  device    = var.standin ? "cpu" : null
  workers   = 1
  # The collectors start the ranks on all GPUs.
  one_worker = true
  env        = { SGLANG_LOAD_FORMAT = "dummy", SGLANG_TEST_NUM_LAYERS = "2", MODEL_PATH = var.model }
}

module "one" {
  source        = "./modules/wideep"
  nodes         = 1
  gpus_per_node = var.gpus_per_node
  ops           = contains(var.node_counts, 1) ? var.ops : ["none"]
}

executor "one" {
  kind           = "slurm"
  account        = var.account
  time           = var.time
  nodes          = 1
  tasks_per_node = var.gpus_per_node
  gpus_per_node  = var.gpus_per_node
  poll           = var.poll
}

module "two" {
  source        = "./modules/wideep"
  nodes         = 2
  gpus_per_node = var.gpus_per_node
  ops           = contains(var.node_counts, 2) ? var.ops : ["none"]
}

executor "two" {
  kind           = "slurm"
  account        = var.account
  time           = var.time
  nodes          = 2
  tasks_per_node = var.gpus_per_node
  gpus_per_node  = var.gpus_per_node
  poll           = var.poll
}

module "four" {
  source        = "./modules/wideep"
  nodes         = 4
  gpus_per_node = var.gpus_per_node
  ops           = contains(var.node_counts, 4) ? var.ops : ["none"]
}

executor "four" {
  kind           = "slurm"
  account        = var.account
  time           = var.time
  nodes          = 4
  tasks_per_node = var.gpus_per_node
  gpus_per_node  = var.gpus_per_node
  poll           = var.poll
}

module "eight" {
  source        = "./modules/wideep"
  nodes         = 8
  gpus_per_node = var.gpus_per_node
  ops           = contains(var.node_counts, 8) ? var.ops : ["none"]
}

executor "eight" {
  kind           = "slurm"
  account        = var.account
  time           = var.time
  nodes          = 8
  tasks_per_node = var.gpus_per_node
  gpus_per_node  = var.gpus_per_node
  poll           = var.poll
}

executor "local" { kind = "local" }

collect "wideep" {
  for_each = local.work
  grid     = each.value.grid
  runtime  = runtime.sglang
  executor = var.executor == "slurm" ? each.value.executor : executor.local

  bind = {
    function = "wideep"
    args = {
      table    = each.value.table
      command  = var.standin ? local.standin : local.seed[each.value.collector]
      launcher = contains(local.alone, each.value.collector) ? [] : var.launcher
    }
  }
}

dedupe "wideep" {
  for_each = collect.wideep
  input    = each.value
  keep     = "latest"
}

gate "wideep" {
  for_each = dedupe.wideep
  input    = each.value

  check "coverage" { min = 0.99 }
  check "positive" { column = lookup(local.time_of, split("/", each.key)[0], "latency") }
  check "duplicates" { max = 0 }
}

# Rows of all numbers of nodes are one table, merged by its key.
export "wideep" {
  for_each = { for table in local.tables : table => [for name, w in local.work : gate.wideep[name] if w.table == table] }
  input    = each.value
  table    = each.key
  file     = "${each.key}.txt"
}
