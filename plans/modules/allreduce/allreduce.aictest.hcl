# Tests of this module: aicplan test plans/modules/allreduce

run "one node of eight" {
  plan {
    system "h200_sxm" {}
    module "allreduce" {
      source  = "./"
      backend = "vllm"
      system  = system.h200_sxm
      gpus    = [1, 2, 4, 8, 16]
    }
  }

  expect "grid.custom_allreduce" {
    cases = 3
    drops = { "one GPU has nobody to reduce with" = 1, "a node of this system has fewer GPUs" = 1 }
  }
}
