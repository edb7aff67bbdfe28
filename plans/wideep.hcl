# Wide expert parallelism: attention and MLP of DeepSeek with random weights, DeepEP MoE on two GPUs and more, and
# dispatch and combine of DeepEP over nodes. Programs of SGLang's collectors start a process for each GPU, by srun, and
# their rows are merged by the keys of the tables.
#
#   aicplan plan  plans/wideep.hcl
#   aicplan apply plans/wideep.hcl --var executor=slurm --var 'node_counts=[1,2,4,8]' --var collectors=/path/to/collector/sglang --var model=/path/to/deepseek-v3
#
# Without SGLang and GPUs, a stand-in produces marked rows that show the data flow:
#
#   aicplan apply plans/wideep.hcl --var standin=true --var executor=slurm --var 'node_counts=[1,2]' --var gpus_per_node=2

include = ["modules/database/executors.hcl", "modules/wideep/choices.hcl"]

variable "collectors" { default = "" } # Folder of the collectors: collect_wideep_attn.py and those beside it.

# A folder with the config of DeepSeek-V3; its weights are not needed.
variable "model" { default = "deepseek-ai/DeepSeek-V3" }

variable "deepep" {
  type        = map(list(string))
  default     = {}
  description = "The commands of the DeepEP collectors, deepep_ll, deepep_normal and moe_a2a: words with {output}, {hidden_size}, {num_topk}, {num_experts} and {ranks}; {case} is all columns as JSON. Checkouts differ in them, so there is no default."
}

variable "python" { default = "python3" }

variable "node_counts" {
  default     = [1]
  description = "Numbers of nodes. Every rank has the same number of experts, so the ranks divide the experts of a model."

  validation {
    condition     = alltrue([for n in var.node_counts : n >= 1 && n == floor(n)])
    error_message = "node_counts has whole numbers from 1"
  }

  # One node has attention and the dense layer, whatever the experts are.
  validation {
    condition     = length(local.uneven) == 0
    error_message = "${join("; ", [for n in local.uneven : "${n} nodes of ${var.gpus_per_node} GPUs are ${n * var.gpus_per_node} ranks, and ${n * var.gpus_per_node} divides none of ${join(", ", local.experts)} experts"])}. ${length(local.even) > 0 ? "Numbers of nodes that do: ${join(", ", local.even)}. Or give" : "Give"} models redundant experts, such as ${join(", ", [for n in local.uneven : "${ceil(max(local.experts...) / (n * var.gpus_per_node)) * n * var.gpus_per_node} experts for ${n} nodes"])}: --var 'models=[{hidden_size=7168, num_topk=8, num_experts=${ceil(max(local.experts...) / (local.uneven[0] * var.gpus_per_node)) * local.uneven[0] * var.gpus_per_node}}]'"
  }
}

variable "time" { default = "02:00:00" }
variable "poll" { default = "5s" }

# What starts the ranks; empty where the collectors do so themselves.
variable "launcher" {
  default = ["srun", "--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={gpus_per_node}", "--distribution=block", "--kill-on-bad-exit=1", "--overlap"]
}

variable "standin" { default = false } # A stand-in instead of the collectors, which measures nothing.

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

  experts = sort([for e in toset([for m in var.models : m.num_experts]) : e])
  # Numbers of nodes whose ranks divide the experts of a model.
  even = [for n in range(1, max(local.experts...) / var.gpus_per_node + 1) : n if anytrue([for e in local.experts : e % (n * var.gpus_per_node) == 0])]

  uneven = [for n in toset(var.node_counts) : n if n >= 2 && n == floor(n) && !contains(local.even, n)]

  # By table and number of nodes.
  work   = merge([for n, m in module.nodes : { for table, w in m.grids : "${table}/${n}" => merge(w, { table = table }) }]...)
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

module "nodes" {
  for_each      = toset([for n in var.node_counts : tostring(n)])
  source        = "./modules/wideep"
  models        = var.models
  distributions = var.distributions
  throughput    = var.throughput
  nodes         = tonumber(each.key)
  gpus_per_node = var.gpus_per_node
  ops           = var.ops
}

# Each number of nodes has jobs of its own.
executor "slurm" {
  kind           = "slurm"
  account        = var.account
  time           = var.time
  gpus_by        = ["nodes", "gpus_per_node"]
  nodes          = max(1, var.node_counts...)
  tasks_per_node = var.gpus_per_node
  gpus_per_node  = var.gpus_per_node
  poll           = var.poll
}

collect "wideep" {
  for_each = local.work
  grid     = each.value.grid
  runtime  = runtime.sglang
  executor = var.executor == "slurm" ? executor.slurm : executor.local

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
}

gate "wideep" {
  for_each = dedupe.wideep
  input    = each.value
  check "coverage" { min = 0.99 }
  check "limits" {}
  check "duplicates" { max = 0 }
}

# Rows of all numbers of nodes are one table, merged by its key.
export "wideep" {
  for_each = { for table in local.tables : table => [for name, w in local.work : gate.wideep[name] if w.table == table] }
  input    = each.value
  table    = each.key
  file     = "${each.key}.txt"
}
