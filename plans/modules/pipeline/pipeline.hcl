# From grids to perf files, for the ops of one runtime: look at the machine, collect, keep one row per key, judge,
# export. Ops that fill one table are exported together.

variable "runtime" { description = "Who executes the cases." }
variable "system" { description = "The system that the rows are for." }
variable "grids" { description = "The grids by op; null for those that are not planned." }
variable "bindings" { description = "How a python runtime reaches the ops, by op." }
variable "unsupported" { default = {} } # Cases without a kernel on the plan's device, by op: lists of where and reason.
variable "power" { default = false }    # Measure power too: adds the columns power and power_limit.

# Count keys of the table instead of cases, where several kernels measure one shape.
variable "coverage_by_key" { default = false }

variable "keep" { default = "latest" } # Which row of a key stays: latest, first, best or median.

variable "reference" {
  type        = map(string)
  default     = {}
  description = "Published tables by op, to estimate the time from and to compare with: a path each."
}

variable "backend" { type = string } # Folder of the backend in a database.

locals {
  # The tables that are not named as their op. Each row of compute_scale names the one of its two tables to which it
  # belongs.
  tables_of = {
    compute_scale                      = ["computescale_perf", "scale_matrix_perf"]
    attention_context                  = ["context_attention_perf"]
    attention_generation               = ["generation_attention_perf"]
    mla_context                        = ["context_mla_perf"]
    mla_generation                     = ["generation_mla_perf"]
    mla_bmm_gen_pre                    = ["mla_bmm_perf"]
    mla_bmm_gen_post                   = ["mla_bmm_perf"]
    moe_ep                             = ["moe_expert_compute_perf"]
    dsa_context_module_skip_indexer    = ["dsa_context_module_perf"]
    dsa_generation_module_skip_indexer = ["dsa_generation_module_perf"]
  }

  planned  = [for op, g in var.grids : op if g != null]
  excepted = keys(var.unsupported)
  fills    = { for op in local.planned : op => lookup(local.tables_of, op, ["${op}_perf"]) }
  exports  = { for table in distinct(flatten(values(local.fills))) : table => [for op in local.planned : op if contains(local.fills[op], table)] }

  # Cases that fail together: a group that fails from its first case on is not tried to the end.
  groups = {
    gemm                 = ["gemm_dtype"]
    attention_context    = ["head_dim", "kv_cache_dtype"]
    attention_generation = ["head_dim", "kv_cache_dtype"]
    mla_bmm_gen_pre      = ["bmm_dtype"]
    mla_bmm_gen_post     = ["bmm_dtype"]
    moe                  = ["moe_dtype"]
    moe_ep               = ["moe_dtype"]
  }
}

preflight "node" {
  runtime = var.runtime
  system  = var.system
  check "framework" {}
  check "exclusive" {}
  check "disk" { min_gb = 2 }
  check "clocks" { on_fail = "warn" }
}

import "published" {
  for_each = { for op, path in var.reference : op => path if contains(local.planned, op) }
  path     = each.value
}

collect "op" {
  for_each   = var.grids
  grid       = each.value
  reference  = contains(keys(var.reference), each.key) ? import.published[each.key] : null
  runtime    = var.runtime
  system     = var.system
  bind       = var.bindings[each.key]
  depends_on = [preflight.node]
  ramp       = [16, 100]

  unsupported = contains(local.excepted, each.key) ? var.unsupported[each.key] : null

  measure { power = var.power }

  breaker {
    group_by = lookup(local.groups, each.key, [])
    after    = 8 # one for each worker of a GPU
  }
}

dedupe "op" {
  for_each    = collect.op
  input       = each.value
  keep        = var.keep
  max_repeats = 0.005
}

gate "op" {
  for_each = dedupe.op
  input    = each.value

  check "coverage" {
    min    = var.coverage
    by_key = var.coverage_by_key
  }
  check "duplicates" { max = 0 }
  check "schema" {}
  check "provenance" { system = var.system }
  check "limits" { system = var.system }
  # Tables without axes or groups have nothing to compare.
  check "trend" { min_judged = 0 }
  check "copies" { min_judged = 0 }

  # Runtimes that cannot read a column leave it null or out.
  check "rows" {
    name       = "throttled"
    condition  = !throttled
    max_share  = 0.05
    min_judged = 0
    fix        = "longer idle gaps in the measure block keep the board under its power cap"
  }
  check "rows" {
    name       = "cuda_graph"
    condition  = used_cuda_graph || !coalesce(launch_bound, latency <= 0.1)
    max_share  = 0.05
    min_judged = 0
    fix        = "latencies without a CUDA graph show the launches of the host; measure with graph = \"require\""
  }
  check "rows" {
    name       = "noise"
    condition  = rel_stdev <= 0.1
    max_share  = 0.05
    min_judged = 0
    severity   = "warn"
    fix        = "more samples, longer idle gaps, a quieter machine or locked clocks"
  }
  check "rows" {
    name       = "unstable"
    condition  = rel_stdev <= 0.5
    max_share  = 0.05
    min_judged = 0
  }
  check "rows" {
    name       = "passes"
    condition  = pass_spread <= 0.5
    max_share  = 0.05
    min_judged = 0
    fix        = "passes over one case disagree: something else used the device"
  }
  check "rows" {
    name       = "numerics"
    condition  = relative_error <= 0.1
    min_judged = 0
    fix        = "the kernel computes something else than its reference"
  }
}

# With published rows of an op, what was measured is compared with them.
gate "published" {
  for_each = { for op, path in var.reference : op => path if contains(local.planned, op) }
  input    = gate.op[each.key]

  check "compare" {
    reference = import.published[each.key]
    median    = 0.3
    spread    = 0.2
    outliers  = 0.005 # a share that p5 and p95 do not show
    # Cases that were never published cannot be compared.
    min_judged = 0
  }
}

export "table" {
  for_each = {
    for table, ops in local.exports :
    table => [for op in ops : contains(keys(var.reference), op) ? gate.published[op] : gate.op[op]]
  }
  input  = each.value
  table  = each.key
  dir    = var.layout == "flat" ? var.backend : null # plans of several frameworks share an output folder
  file   = var.layout == "flat" ? "${each.key}.txt" : null
  layout = var.layout
  system = var.system
  # Readers want the spec beside the tables.
  system_spec = var.layout != "flat"

  backend = var.backend
  power   = var.power ? "require" : "auto"
}

output "preflight" { value = preflight.node }                                 # for stages of a plan's own to wait for
output "exports" { value = values(export.table) }                             # the exports, for stages that read their files
output "files" { value = { for table, e in export.table : table => e.path } } # the exported files by table
