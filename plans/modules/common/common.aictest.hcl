# Tests of this module: aicplan test plans/modules/common

run "only what a model has" {
  plan {
    system "h200_sxm" {}
    module "selection" {
      source  = "../selection"
      system  = system.h200_sxm
      backend = "trtllm"
      ops     = ["compute_scale", "mla_bmm_gen_pre", "gdn"]
      models  = ["Qwen/Qwen3-32B"]
    }
    module "common" {
      source    = "./"
      selection = module.selection
    }
  }

  expect "grid.compute_scale" { exists = true }
  expect "grid.mla_bmm_gen_pre" { exists = false }
  expect "grid.gdn" { exists = false }
}

run "a model with latent attention" {
  plan {
    system "h200_sxm" {}
    module "selection" {
      source  = "../selection"
      system  = system.h200_sxm
      backend = "trtllm"
      ops     = ["mla_bmm_gen_pre"]
      models  = ["deepseek-ai/DeepSeek-V3"]
      tp      = [8]
    }
    module "common" {
      source    = "./"
      selection = module.selection
      formats   = { bmm = [{ bmm_dtype = "bfloat16", min_sm = 0, max_sm = 999 }] }
    }
  }

  assert {
    condition     = length(cases("grid.mla_bmm_gen_pre")) > 0 && alltrue([for c in cases("grid.mla_bmm_gen_pre") : c.num_heads == 16])
    error_message = "DeepSeek-V3 has 128 heads: 16 on each of eight ranks"
  }
}
