# From a grid to a perf file: collect in growing samples, keep one row a case,
# judge, export. Give it a grid and a runtime.

variable "grid" { type = any }          # the cases to measure
variable "runtime" { type = any }       # who executes them
variable "preflight" { type = any }     # a preflight that must pass first
variable "file" { type = string }       # name of the perf file
variable "max_noise" { default = 0.05 } # 95th percentile of the relative standard deviation that a gate accepts

collect "op" {
  grid       = var.grid
  runtime    = var.runtime
  depends_on = [var.preflight]
  ramp       = [4, 100] # a rung must pass before the next begins

  # A processor shares its time with everything else on the machine. Blocks are shorter than the time that its scheduler
  # gives a neighbour, so that most have none in them. Visits are as short as they can be and many, with those of up to
  # 64 cases between them, because a neighbour stays for seconds: ten visits of three blocks repeat better than four of
  # ten in the same time.
  measure {
    min_block_seconds = 0.0005
    max_pass_seconds  = 0.12
    max_samples       = 3
    passes            = 10
    max_passes        = 24
    pass_tolerance    = 0.02
  }
}

dedupe "op" { input = collect.op }

gate "op" {
  input = dedupe.op

  check "coverage" { min = 1.0 }
  check "limits" {}
  check "duplicates" { max = 0 }
  check "rows" {
    name      = "noise"
    condition = rel_stdev <= var.max_noise
    max_share = 0.05
    severity  = "warn"
  }
}

export "op" {
  input = gate.op
  file  = var.file
}

output "table" { value = gate.op }
output "export" { value = export.op }
output "path" { value = export.op.path }
output "rows" { value = collect.op.rows }
