# Cases that upstream lists and that have no kernel on the plan's device. They are not tried, the ledger has them as
# unsupported_config with the reason, and coverage counts the others. Held against the tables of aiconfigurator 0.12.0:
# none of these keys was ever published for an H200 (docs/results/published.md).

locals {
  odd_widths = { for t in powers(2, 0, 5) : t => distinct([for r in var.selection.models.moe : r.inter_size if r.inter_size % (128 * t) != 0]) }

  unsupported = {
    # The bound is on the width of a rank, which no column has: the widths of the models are listed by rank count.
    # Releases that single models need have rows of such widths.
    moe = var.selection.pin != null ? [] : [for t in powers(2, 0, 5) : {
      where  = { moe_dtype = ["fp8_block"], moe_tp_size = [t], inter_size = local.odd_widths[t] }
      reason = "vLLM's experts in blocks of fp8 need a width of the rank that 128 divides"
    } if length(local.odd_widths[t]) > 0]

    kda = [{
      where  = { phase = ["context"], "batch_size*seq_len*num_v_heads*head_v_dim" = { min = 2147483648 } }
      reason = "the collector refuses 2^31 and more elements: the convolution's token offsets are 32-bit integers"
    }]

    dsa_context_module = local.sm != 90 ? [] : [{
      where  = { kv_cache_dtype = ["fp8"], num_heads = [1, 2, 4, 8, 16], "batch_size*isl" = { min = 65536 } }
      reason = "FlashMLA's sparse prefill pads few heads, and its scratch does not fit from 65,536 query tokens on"
    }]
  }
}

output "unsupported" { value = local.unsupported } # cases without a kernel on the plan's device, by op
