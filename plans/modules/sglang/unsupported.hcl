# Cases that upstream lists and that have no kernel on the plan's device. They are not tried, the ledger has them as
# unsupported_config with the reason, and coverage counts the others. Held against the tables of aiconfigurator 0.12.0:
# none of these keys was ever published for an H200 (docs/results/published.md).

locals {
  chunk = [{
    where  = { "batch_size*isl" = { min = 8193 } }
    reason = "more query tokens than SGLang's chunked prefill takes at once (8,192)"
  }]

  odd_widths = { for t in powers(2, 0, 5) : t => distinct([for r in var.selection.models.moe : r.inter_size if r.inter_size % (128 * t) != 0]) }

  unsupported = {
    gemm = local.sm != 90 ? [] : [{
      where  = { gemm_dtype = ["fp8"], n = [1, 4, 12] }
      reason = "sgl-kernel's fp8 product writes rows of bfloat16 whose bytes 16 must divide"
    }]

    attention_context = local.sm != 90 ? [] : [{
      where  = { attn_dtype = ["bfloat16"], kv_cache_dtype = ["fp8"], kernel_source = ["fa3"], head_dim = { max = 256 } }
      reason = "FlashAttention 3 casts the queries to fp8 when the cache is fp8: there is no such kernel with bfloat16 compute"
    }]

    # The bound is on the width of a rank, which no column has: the widths of the models are listed by rank count.
    moe = local.sm != 90 ? [] : [for t in powers(2, 0, 5) : {
      where  = { moe_dtype = ["fp8_block"], moe_backend = ["triton"], moe_tp_size = [t], inter_size = local.odd_widths[t] }
      reason = "SGLang's Triton experts in blocks of fp8 need a width of the rank that 128 divides"
    } if length(local.odd_widths[t]) > 0]

    dsv4_csa_context_module = local.chunk
    dsv4_hca_context_module = local.chunk

    gdn = flatten([for k in [1, 2, 4, 8, 16] : [for v in [2, 4, 6, 8, 12, 16, 24, 32, 48, 64] : {
      where  = { phase = ["context"], num_k_heads = [k], num_v_heads = [v], "batch_size*seq_len" = { min = ceil(2147483648 / ((2 * k + v) * 128)) } }
      reason = "the collector refuses 2^31 and more elements: the convolution's token offsets are 32-bit integers"
    } if 2097152 * (2 * k + v) * 128 >= 2147483648]])

    kda = [{
      where  = { phase = ["context"], "batch_size*seq_len*num_v_heads*head_v_dim" = { min = ceil(2147483648 / 3) } }
      reason = "the collector refuses 2^31 and more elements of the three-way convolution: its token offsets are 32-bit integers"
    }]
  }
}

output "unsupported" { value = local.unsupported } # cases without a kernel on the plan's device, by op
