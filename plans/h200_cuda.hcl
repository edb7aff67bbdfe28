# The native plan: cuBLASLt's matrix products and kernels of our own, measured without a framework, without Python and
# without a container.
#
#   aicplan plan  plans/h200_cuda.hcl
#   aicplan apply plans/h200_cuda.hcl
#   aicplan apply plans/h200_cuda.hcl --var 'dtypes=["bfloat16"]' --target export.gemm
#
# Needs the NVIDIA driver and libcublasLt of CUDA 12 or 13, which every framework's environment has.

include = ["modules/database/system.hcl"]

variable "dtypes" {
  type        = list(string)
  default     = []
  description = "Formats of gemm: bfloat16, fp8, fp8_block; none means all."

  validation {
    condition     = alltrue([for d in var.dtypes : contains(["bfloat16", "fp8", "fp8_block"], d)])
    error_message = "The published grid of an H200 has bfloat16, fp8 and fp8_block."
  }
}

# sustained: what kernels do when their like run without end, at the clock that the power cap leaves; recovered: on a
# device that comes from light work.
variable "operating_point" { default = "sustained" }

variable "power" { default = false }         # Measure power too: adds the columns power and power_limit.
variable "protocol" { default = "adaptive" } # adaptive, or reference: the collectors' own, for comparison.

# Share of the cases that must have a row: cuBLASLt has no kernel for some shapes.
variable "coverage" { default = 0.95 }

variable "devices" {
  type        = list(number)
  default     = null
  description = "Indices of the GPUs to use; null means all."
}

runtime "cuda" {
  kind      = "cuda"
  framework = "CUDA"
  devices   = var.devices
  system    = var.system
}

preflight "node" {
  runtime = runtime.cuda
  system  = system.this

  check "framework" {}
  check "libraries" {}
  check "gpus" {}
  check "exclusive" {}
  check "mig" {}
  check "ecc" { on_fail = "warn" }
  check "throttle" { on_fail = "warn" }
  check "temperature" { on_fail = "warn" }
  check "persistence" { on_fail = "warn" }
  check "clocks" { on_fail = "warn" }
  check "disk" { min_gb = 1 }
}

# The shapes are those of the published tables.
module "selection" {
  source  = "./modules/selection"
  system  = system.this
  backend = "trtllm"
  ops     = ["gemm", "mla_bmm_gen_pre", "mla_bmm_gen_post"]
}

module "shapes" {
  source      = "./modules/trtllm"
  selection   = module.selection
  gemm_dtypes = var.dtypes
}

module "cuda" { source = "./modules/cuda" }

collect "op" {
  for_each = {
    gemm             = module.shapes.grids.gemm
    mla_bmm_gen_pre  = module.shapes.grids.mla_bmm_gen_pre
    mla_bmm_gen_post = module.shapes.grids.mla_bmm_gen_post
    memory           = module.cuda.memory
    elementwise      = module.cuda.elementwise
  }
  grid       = each.value
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]
  ramp       = [20, 200]

  measure {
    protocol        = var.protocol
    operating_point = var.operating_point
    power           = var.power
  }

  breaker {
    group_by = { gemm = ["gemm_dtype"], mla_bmm_gen_pre = ["bmm_dtype"], mla_bmm_gen_post = ["bmm_dtype"], memory = ["kernel"], elementwise = ["kernel"] }[each.key]
    after    = 20
  }
}

dedupe "op" {
  for_each = collect.op
  input    = each.value
}

gate "op" {
  for_each = dedupe.op
  input    = each.value

  check "coverage" { min = var.coverage }
  check "limits" {}
  check "duplicates" { max = 0 }
  check "rows" {
    name      = "noise"
    condition = rel_stdev <= 0.05
    max_share = 0.05
    severity  = "warn"
  }
  check "rows" {
    name      = "throttled"
    condition = !throttled
    max_share = 0.01
    severity  = "warn"
  }
}

gate "speed_of_light" {
  input = dedupe.op["gemm"]
  check "limits" {
    system   = system.this
    severity = "warn"
  }
}

export "gemm" {
  input = gate.op["gemm"]
  file  = "gemm_perf.txt"
}

export "mla_bmm" {
  input = [gate.op["mla_bmm_gen_pre"], gate.op["mla_bmm_gen_post"]]
  file  = "mla_bmm_perf.txt"
}

export "memory" {
  input = gate.op["memory"]
  file  = "memory.csv"
}

export "elementwise" {
  input = gate.op["elementwise"]
  file  = "elementwise.csv"
}

output "files" { value = [export.gemm.path, export.mla_bmm.path, export.memory.path, export.elementwise.path] }
