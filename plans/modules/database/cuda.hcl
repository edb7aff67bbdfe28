# The native runtime on the GPUs of the system, and what must hold before it measures.

include = ["system.hcl"]

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
  check "throttle" { on_fail = "warn" }
  check "temperature" { on_fail = "warn" }
}
