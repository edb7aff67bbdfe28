# Cases that upstream lists and that have no kernel on the plan's device. They are not tried, the ledger has them as
# unsupported_config with the reason, and coverage counts the others. Held against the tables of aiconfigurator 0.12.0:
# none of these keys was ever published for an H200 (docs/results/published.md).

locals {
  flashinfer = contains([100, 103], local.sm) ? [] : [{
    where  = { attn_backend = ["FLASHINFER"] }
    reason = "FlashInfer's trtllm-gen attention runs on SM100 and SM103 only"
  }]

  unsupported = {
    attention_context    = local.flashinfer
    attention_generation = local.flashinfer

    msa_context_module    = local.msa_heads
    msa_generation_module = local.msa_heads

    gdn = flatten([for k in [1, 2, 4, 8, 16] : [for v in [2, 4, 6, 8, 12, 16, 24, 32, 48, 64] : {
      where  = { phase = ["context"], num_k_heads = [k], num_v_heads = [v], "batch_size*seq_len" = { min = ceil(3221225472 / ((2 * k + v) * 128)) } }
      reason = "the convolution over 3 * 2^30 and more elements fails"
    } if 2097152 * (2 * k + v) * 128 >= 3221225472]])

    mamba2 = flatten([for h in [16, 64, 128, 256] : [for g in [4, 8] : [for s in [64, 128, 256] : {
      where  = { phase = ["context"], nheads = [h], n_groups = [g], d_state = [s], "batch_size*seq_len" = { min = ceil(2147483648 / (h * 64 + 2 * g * s)) } }
      reason = "the convolution over 2^31 and more elements fails: its token offsets are 32-bit integers"
    } if 2097152 * (h * 64 + 2 * g * s) >= 2147483648]]])
  }

  msa_heads = [{
    where  = { num_heads = [128] }
    reason = "MiniMax-M3's sparse attention needs key-value heads that divide its 4 index heads; 128 heads have 8"
  }]
}

output "unsupported" { value = local.unsupported } # cases without a kernel on the plan's device, by op
