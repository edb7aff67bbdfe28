# What a merge has to pass: matrix products on the machine at hand, every
# planned case measured, nothing exported that was not judged.

variable "dtypes" {
  type        = list(string)
  default     = ["float32", "bfloat16"]
  description = "element types; the cpu runtime has no bfloat16, so the default does not pass"
}

runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
}

preflight "node" {
  runtime = runtime.cpu
  check "framework" {}
  check "writable" {}
}

grid "gemm" {
  op = "gemm"

  axis "gemm_dtype" { values = var.dtypes }
  axis "m" { values = powers(2, 0, 4) }
  axis "n" { values = [64, 128] }
  axis "k" { values = [64, 128] }

  filter "square" {
    keep   = n == k
    reason = "square weights are sample enough for a merge"
  }
}

collect "gemm" {
  grid       = grid.gemm
  runtime    = runtime.cpu
  depends_on = [preflight.node]
}

gate "gemm" {
  input = collect.gemm

  check "coverage" { min = 1.0 }
  check "rows" { condition = latency > 0 }
  check "duplicates" { max = 0 }
  check "rows" {
    condition = rel_stdev <= 0.5
    max_share = 0.05
    severity  = "warn"
  }
}

export "gemm" {
  input = gate.gemm
  file  = "gemm_perf.txt"
}

report "merge" {
  title      = "Matrix products of this change"
  inputs     = gate.gemm
  depends_on = [export.gemm]
  format     = ["html", "markdown"]
}
