# Tests of this module: aicplan test plans/modules/comm

run "two GPUs" {
  plan {
    system "h200_sxm" {}
    runtime "nccl" {
      kind      = "nccl"
      framework = "NCCL"
    }
    module "comm" {
      source  = "./"
      runtime = runtime.nccl
      system  = system.h200_sxm
      gpus    = [2]
    }
  }

  expect "grid.nccl[\"graph\"]" {
    cases = 168
    drops = { one_node = 0 }
  }
  expect "grid.p2p[\"all\"]" {
    declared = 40
    cases    = 20
    drops    = { two_gpus = 20 }
  }
}

run "more GPUs than a node has" {
  plan {
    system "h200_sxm" {}
    runtime "nccl" {
      kind      = "nccl"
      framework = "NCCL"
    }
    module "comm" {
      source  = "./"
      runtime = runtime.nccl
      system  = system.h200_sxm
      gpus    = [16]
      tables  = ["nccl"]
    }
  }

  expect "grid.nccl[\"graph\"]" {
    cases = 0
    drops = { "a node of this system has fewer GPUs" = 168 }
  }
}

run "sixteen nodes of four" {
  plan {
    system "h200_sxm" {}
    runtime "nccl" {
      kind          = "nccl"
      framework     = "NCCL"
      nodes         = 16
      gpus_per_node = 4
    }
    module "comm" {
      source   = "./"
      runtime  = runtime.nccl
      system   = system.h200_sxm
      nodes    = 16
      per_node = 4
      gpus     = [2, 64, 72]
    }
  }

  expect "grid.nccl[\"graph\"]" {
    cases = 336
    drops = { "the nodes have fewer GPUs together" = 168 }
  }
  expect "grid.p2p[\"all\"]" { cases = 0 }
}
