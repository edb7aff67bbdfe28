# Grids for the op functions in this folder: what torch itself can measure, on
# a selection of sizes that a single GPU is through in an afternoon.

variable "system" { description = "The system to plan for." }

variable "ops" {
  type        = list(string)
  default     = []
  description = "Ops to plan; none means all."
}

locals {
  ops = [
    "gemm", "gemm_float16", "attention_context", "attention_generation", "moe", "mla_bmm_gen_pre", "mla_bmm_gen_post", "compute_scale",
  ]

  chosen = length(var.ops) > 0 ? var.ops : local.ops
  sm     = var.system.sm_version

  tokens = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
  widths = [1024, 2048, 4096, 5120, 7168, 8192]

  # Query heads, key/value heads and head size of one rank: Llama 3 8B and 70B
  # whole and split, a multi-head layer, and heads of 64.
  heads = [
    { num_heads = 32, num_key_value_heads = 8, head_dim = 128 },
    { num_heads = 64, num_key_value_heads = 8, head_dim = 128 },
    { num_heads = 8, num_key_value_heads = 1, head_dim = 128 },
    { num_heads = 32, num_key_value_heads = 32, head_dim = 128 },
    { num_heads = 16, num_key_value_heads = 16, head_dim = 64 },
    { num_heads = 64, num_key_value_heads = 8, head_dim = 64 },
  ]

  backends = ["torch_flash", "torch_cudnn"]
}
