# The first plan: real kernels on this machine's processor, from the declared
# grids to perf files that passed their gates, in less than a minute.
#
#   aicplan plan  plans/quickstart.hcl     what would be collected
#   aicplan apply plans/quickstart.hcl     collect, check, export

variable "dtypes" {
  default     = ["float32", "float64"]
  description = "element types of the matrix products"

  validation {
    condition     = length(setsubtract(toset(var.dtypes), toset(["float32", "float64"]))) == 0
    error_message = "the cpu runtime multiplies float32 and float64 only"
  }
}

variable "max_gflop" { default = 0.6 } # largest matrix product, in 10^9 floating-point operations

# largest array of the memory kernels; choose several times the last-level cache
variable "max_array_mb" { default = 128 }

locals {
  token_counts = [1, 4, 16, 64, 256]
  widths       = [128, 256, 512, 1024]

  # From 16 KiB, which fits the first-level cache, upwards.
  array_bytes = [for p in range(14, 31, 2) : pow(2, p) if pow(2, p) <= var.max_array_mb * 1048576]
}

runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
}

# The tables of GPU kernels do not fit these rows: a table of each kind is declared.
table "cpu_gemm_perf" {
  family      = "processor"
  description = "matrix products of this machine's processor"
  key         = ["gemm_dtype", "m", "n", "k"]
  column "gemm_dtype" { type = "string" }
  column "m" { type = "int64" }
  column "n" { type = "int64" }
  column "k" { type = "int64" }
  metric "latency" { unit = "ms" }
}

table "cpu_memory_perf" {
  family      = "processor"
  description = "streaming kernels on arrays of this machine's memory"
  key         = ["kernel", "size_bytes"]

  column "kernel" { type = "string" }
  column "size_bytes" {
    type = "int64"
    unit = "bytes"
  }
  metric "latency" { unit = "ms" }
}

preflight "node" {
  runtime = runtime.cpu
  check "framework" {}
  check "writable" {}
  check "disk" { min_gb = 0.2 }
  check "memory" { min_gb = 1 }
  check "load" { on_fail = "warn" }
}

grid "gemm" {
  description = "y = x W^T, as a linear layer computes it"
  perf_table  = "cpu_gemm_perf"

  axis "gemm_dtype" { values = var.dtypes }
  axis "m" { values = local.token_counts }
  axis "n" { values = local.widths }
  axis "k" { values = local.widths }

  filter "short_enough" {
    keep   = 2 * m * n * k <= var.max_gflop * 1000000000
    reason = "a single product would take too long for a first look"
  }
  filter "double_precision_sample" {
    keep   = gemm_dtype == "float32" || n == k
    reason = "for float64 the square weights are sample enough"
  }
}

grid "memory" {
  description = "streaming kernels on arrays from the first-level cache to main memory"
  perf_table  = "cpu_memory_perf"

  axis "kernel" { values = ["copy", "scale", "add", "triad"] }
  axis "size_bytes" { values = local.array_bytes }

  filter "three_arrays_fit" {
    keep   = 3 * size_bytes <= 1073741824
    reason = "three arrays of this size would need more than 1 GiB"
  }
}

# One module, used once for each grid: collect, dedupe, gate, export.
module "measured" {
  source    = "./modules/measured"
  for_each  = { gemm = grid.gemm, memory = grid.memory }
  grid      = each.value
  runtime   = runtime.cpu
  preflight = preflight.node
  file      = "cpu_${each.key}_perf.txt"
  max_noise = 0.25
}

# What came of it, for people: out/report.html, and out/report.md for a pull
# request. Written also when a gate stopped the data.
report "quickstart" {
  title      = "Matrix products and memory kernels of this machine"
  inputs     = [for m in module.measured : m.table]
  depends_on = [for m in module.measured : m.export]
}

output "files" { value = { for name, m in module.measured : name => m.path } } # what was exported
output "rows" { value = { for name, m in module.measured : name => m.rows } }  # measured rows of each op
