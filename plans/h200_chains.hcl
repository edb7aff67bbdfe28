# What is between the products of a layer? Chains of matrix products with weights
# of their own, replayed without end, and the sum of the products' rows over each:
#
#   aicplan apply plans/h200_chains.hcl
#   aicplan apply plans/h200_chains.hcl --var 'm=[1, 8, 64]' --var 'graphs=["prefer"]'
#
# If the rows of a small batch sum to more than their layer, the chains show why:
#
# - one: a chain of one product is its row, run for 2 s. If it differs from the
#   row, it is how long a product runs.
# - two, four: the same product repeated, with other weights. A graph of
#   four kernels is launched a quarter as often: if its sum is as far off as the
#   layer's, it is the launch of graphs, or kernels that overlap within one.
# - pair: two different products in turn. If only these are off, it is the
#   change from one product to another.
# - layer, reversed, twice: all of them; in the other order; as a graph of twice
#   as many.
#
# Without graphs (off) nothing is launched as a graph: if rows and chains then
# agree, it is what graphs do. The gates warn, because nothing is promised here.

include = ["modules/database/cuda.hcl"]

variable "m" {
  default     = [8]
  description = "Rows of the products: tokens of a decode step."

  validation {
    condition     = length(var.m) > 0 && alltrue([for m in var.m : m >= 1 && m == floor(m)])
    error_message = "m is a list of whole numbers of rows, one at least"
  }
}

variable "models" {
  default     = ["Llama-8B TP1"]
  description = "Models whose products are taken, of those in locals."

  validation {
    condition     = length(var.models) > 0 && alltrue([for name in var.models : contains(["Llama-8B TP1", "Qwen3-32B TP1", "Qwen3-32B TP8"], name)])
    error_message = "models are Llama-8B TP1, Qwen3-32B TP1 and Qwen3-32B TP8, one of them at least"
  }
}

variable "graphs" { default = ["prefer", "off"] } # How executions are launched: prefer replays graphs, off does not.

locals {
  all = {
    "Llama-8B TP1"  = ["6144x4096", "4096x4096", "28672x4096", "4096x14336"]
    "Qwen3-32B TP1" = ["10240x5120", "5120x8192", "51200x5120", "5120x25600"]
    "Qwen3-32B TP8" = ["1280x5120", "5120x1024", "6400x5120", "5120x3200"]
  }
  products = { for name in var.models : name => local.all[name] }

  chains = flatten([for name, p in local.products : [for m in var.m : [for c in concat(
    [for x in p : { chain = "one", shapes = [x] }],
    [for x in p : { chain = "two", shapes = [x, x] }],
    [for x in p : { chain = "four", shapes = [x, x, x, x] }],
    [for i, x in p : { chain = "pair", shapes = [x, p[(i + 1) % length(p)]] }],
    [
      { chain = "layer", shapes = p },
      { chain = "reversed", shapes = reverse(p) },
      { chain = "twice", shapes = concat(p, p) },
    ],
    ) : { model = name, chain = c.chain, gemm_dtype = "bfloat16", m = m, shapes = join(" ", c.shapes) }
  ]]])
  gemms = distinct(flatten([for p in values(local.products) : [for x in p : [for m in var.m : {
    gemm_dtype = "bfloat16", m = m, n = tonumber(split("x", x)[0]), k = tonumber(split("x", x)[1])
  }]]]))
}

grid "gemm" {
  perf_table = "gemm_perf"
  columns    = ["gemm_dtype", "m", "n", "k"]
  rows "parts" { values = local.gemms }
}

grid "chain" {
  op      = "layer"
  columns = ["model", "chain", "gemm_dtype", "m", "shapes"]
  rows "chains" { values = local.chains }
}

collect "gemm" {
  for_each   = toset(var.graphs)
  grid       = grid.gemm
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]
  measure { graph = each.key }
}

collect "chain" {
  for_each   = toset(var.graphs)
  grid       = grid.chain
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]
  measure { graph = each.key }
}

gate "chain" {
  for_each = collect.chain
  input    = each.value
  check "composition" {
    parts    = [collect.gemm[each.key]]
    min      = 0.97
    max      = 1.03
    severity = "warn"
  }
}
