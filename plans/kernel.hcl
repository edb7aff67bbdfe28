# A kernel of your own: its source next to the plan, its launch as columns of the
# grid, its bytes and operations for the roofline.
#
#   aicplan apply plans/kernel.hcl
#   aicplan apply plans/kernel.hcl --var fault=true    one case writes out of bounds: it alone fails

variable "system" { default = "h200_sxm" }
variable "fault" { default = false } # Let one case write outside of its buffer.

system "this" { name = var.system }

runtime "cuda" {
  kind      = "cuda"
  framework = "CUDA"
  system    = var.system
}

preflight "node" {
  runtime = runtime.cuda
  system  = system.this
  check "libraries" {}
  check "gpus" {}
  check "exclusive" {}
  check "clocks" { on_fail = "warn" }
}

grid "scale" {
  columns = ["n", "block", "fault", "grid_x", "bytes"]
  axis "n" { values = powers(2, 16, 26) }
  axis "block" { values = [128, 256, 1024] }
  derive "grid_x" { value = ceil_div(n, block) }
  derive "bytes" { value = 8 * n }
  derive "fault" { value = var.fault && n == 1048576 && block == 256 ? 1 : 0 }
}

collect "scale" {
  grid       = grid.scale
  runtime    = runtime.cuda
  system     = system.this
  depends_on = [preflight.node]

  bind = {
    file    = "modules/kernels/scale.cu"
    entry   = "scale"
    options = ["-DFAULT={fault}"]
    grid    = ["grid_x"]
    block   = ["block"]
    bytes   = "bytes"
    flops   = "n"
    args = [
      { buffer = "in", type = "float32", elements = "n" },
      { buffer = "out", type = "float32", elements = "n" },
      { type = "int32", value = "n" },
      { type = "float32", value = 0.5 },
    ]
  }
}

export "scale" {
  input = collect.scale
  file  = "scale.csv"
}
