# Gated delta rule (gdn), Kimi delta attention (kda) and hyper-connections. A task of the first two walks all batch
# sizes and lengths of its phase with one set of weights, and writes a row for each kernel: the convolution and the
# delta rule.

part "served_layers" {
  include = [local.parts.chosen]

  filter "tp_served" {
    keep   = contains(served_tp, tp_size)
    reason = local.reasons.served
  }
}

grid "gdn" {
  enabled     = local.plans.gdn
  description = "gated delta-rule layers"
  perf_table  = "gdn_perf"
  columns     = ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "model_name"]
  include     = [part.served_layers]

  rows "model" {
    values = [for r in local.models.gdn : {
      model_name         = r.model_name
      d_model            = r.d_model
      d_conv             = r.d_conv
      native_num_k_heads = r.num_k_heads
      head_k_dim         = r.head_k_dim
      native_num_v_heads = r.num_v_heads
      head_v_dim         = r.head_v_dim
      served_tp          = r.tp
      selected           = r.selected
    }]
  }

  axis "tp_size" { values = [for t in var.selection.tp_sizes : t if t <= 16] }
  axis "phase" { values = ["context", "generation"] }
  derive "num_k_heads" { value = floor(native_num_k_heads / tp_size) }
  derive "num_v_heads" { value = floor(native_num_v_heads / tp_size) }
  distinct { by = ["phase", "d_model", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "d_conv"] }

  sweep "points" {
    columns = ["batch_size", "seq_len"]
    include = [local.parts.layer_points]
  }
}

grid "kda" {
  enabled     = local.plans.kda
  description = "Kimi delta attention layers"
  perf_table  = "kda_perf"
  columns     = ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "model_name"]
  include     = [part.served_layers]

  rows "model" {
    values = [for r in local.models.kda : {
      model_name       = r.model_name
      d_model          = r.d_model
      d_conv           = r.d_conv
      native_num_heads = r.num_heads
      head_k_dim       = r.head_dim
      head_v_dim       = r.head_dim
      served_tp        = r.tp
      selected         = r.selected
    }]
  }

  axis "tp_size" { values = [for t in var.selection.tp_sizes : t if t <= 8] }
  axis "phase" { values = ["context", "generation", "verify"] } # verify checks 2 to 8 drafted tokens at once
  derive "num_k_heads" { value = native_num_heads / tp_size }
  derive "num_v_heads" { value = native_num_heads / tp_size }

  sweep "points" {
    columns = ["batch_size", "seq_len"]
    include = [local.parts.layer_points]

    case_set "verify" {
      axis "batch_size" { values = powers(2, 0, 8) }
      axis "seq_len" { values = [2, 4, 8] }

      filter "phase" {
        keep   = phase == "verify"
        reason = "a point of draft verification"
      }
    }
  }
}

grid "mhc_module" {
  enabled     = local.plans.mhc_module
  description = "hyper-connections before and after a block"
  perf_table  = "mhc_module_perf"
  columns     = ["op", "num_tokens", "hidden_size", "hc_mult"]
  constants   = { architecture = "DeepseekV4ForCausalLM", num_sites = 2, sinkhorn_iters = 20 }
  include     = [local.parts.chosen]

  rows "model" {
    values = [for r in local.models.mhc : { hidden_size = r.hidden_size, hc_mult = r.hc_mult, selected = r.selected }]
  }

  axis "op" { values = ["pre", "post"] } # before or after the block; the table's op_name
  axis "num_tokens" { values = module.shapes.mhc_tokens }
}
