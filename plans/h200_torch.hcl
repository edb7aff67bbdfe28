# The op database of one H200 measured with torch's own kernels:
#
#   aicplan plan  plans/h200_torch.hcl
#   aicplan apply plans/h200_torch.hcl
#
# Needs Python 3.9 or later with torch 2.8 or later for CUDA.

include = ["modules/database/system.hcl"]

variable "python" { default = "python3" } # The interpreter that has torch.

variable "ops" {
  type        = list(string)
  default     = []
  description = "Ops to collect; none means all."
}

variable "power" { default = false } # Measure power too: adds the columns power and power_limit.

# Share of an op's cases that must have a row: torch's cuDNN backend has no kernel for some.
variable "coverage" { default = 0.95 }

variable "verify" { default = false } # Check every result against a reference before it is measured.

runtime "torch" {
  kind      = "python"
  framework = "torch"
  package   = "torch"
  requires  = ">=2.8"
  python    = var.python
  path      = ["modules/torch"]
  verify    = var.verify
}

module "torch" {
  source = "./modules/torch"
  system = system.this
  ops    = var.ops
}

module "pipeline" {
  source = "./modules/pipeline"

  runtime  = runtime.torch
  system   = system.this
  grids    = module.torch.grids
  bindings = { for op, g in module.torch.grids : op => null }
  power    = var.power
  coverage = var.coverage
  backend  = "torch"

  # Attention is measured with each of torch's backends; its table takes the faster one of a shape.
  keep            = "best"
  coverage_by_key = true
}

collect "float16" {
  for_each   = { for name, g in { gemm = module.torch.gemm_float16 } : name => g if g != null }
  grid       = each.value
  runtime    = runtime.torch
  system     = system.this
  depends_on = [module.pipeline.preflight]
}

# A sample, as of --smoke, ends here like those of the other ops.
gate "float16" {
  for_each = collect.float16
  input    = each.value
  check "coverage" { min = var.coverage }
  check "limits" { system = system.this }
  check "duplicates" { max = 0 }
  check "schema" {}
  check "provenance" { system = system.this }
}

export "float16" {
  for_each = gate.float16
  input    = each.value
  file     = "${each.key}_float16.csv"
}

output "files" { value = module.pipeline.files } # the exported files by table
