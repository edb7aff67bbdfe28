# How a model picks its experts, and what its experts compute. TensorRT-LLM and
# vLLM read this from the checkpoint; SGLang's experts are told.

locals {
  # The plain router: softmax over the experts, gated SiLU, no bias.
  plain_router = {
    activation                   = "silu"
    is_gated                     = true
    has_bias                     = false
    swiglu_limit                 = null
    gemm1_alpha                  = null
    gemm1_clamp_limit            = null
    scoring_func                 = "softmax"
    routing_method_type          = null
    routed_scaling_factor        = null
    renormalize                  = true
    has_correction_bias          = false
    num_expert_group             = null
    topk_group                   = null
    apply_router_weight_on_input = false
    fp4_experts                  = false # experts stored in FP4, as DeepSeek-V4's are
    mxfp4_backend                = "triton"
  }

  # DeepSeek-V3 and those that followed it: sigmoid scores with a correction bias, experts in groups.
  sigmoid_router = merge(local.plain_router, {
    scoring_func          = "sigmoid"
    routing_method_type   = "DeepSeekV3"
    routed_scaling_factor = 2.5
    has_correction_bias   = true
    num_expert_group      = 1
    topk_group            = 1
  })

  deepseek_v4_router = merge(local.sigmoid_router, {
    scoring_func     = "sqrtsoftplus"
    swiglu_limit     = 10
    num_expert_group = null
    topk_group       = null
    fp4_experts      = true
  })

  routers = {
    plain             = local.plain_router
    deepseek_v3       = merge(local.sigmoid_router, { num_expert_group = 8, topk_group = 4 })
    deepseek_v4_flash = merge(local.deepseek_v4_router, { routed_scaling_factor = 1.5 })
    deepseek_v4_pro   = local.deepseek_v4_router
    gemma4            = merge(local.plain_router, { activation = "gelu" })
    glm5              = local.sigmoid_router
    gpt_oss           = merge(local.plain_router, { has_bias = true, gemm1_alpha = 1.702, gemm1_clamp_limit = 7 })
    kimi_k2           = merge(local.sigmoid_router, { routed_scaling_factor = 2.827 })
    kimi_k3           = merge(local.sigmoid_router, { routed_scaling_factor = 1, mxfp4_backend = "marlin" })
    llama4            = merge(local.plain_router, { scoring_func = "sigmoid", routing_method_type = "Llama4", renormalize = false, apply_router_weight_on_input = true })
    mimo_v2           = merge(local.sigmoid_router, { routing_method_type = null, routed_scaling_factor = 1 })
    minimax_m2        = merge(local.plain_router, { scoring_func = "sigmoid", has_correction_bias = true })
    minimax_m3        = merge(local.sigmoid_router, { routed_scaling_factor = 2, num_expert_group = null, topk_group = null })
    nemotron_nano     = merge(local.sigmoid_router, { activation = "relu2", is_gated = false })
    nemotron_super    = merge(local.sigmoid_router, { activation = "relu2", is_gated = false, routed_scaling_factor = 5 })
    qwen3             = merge(local.plain_router, { routing_method_type = "Renormalize" })
    qwen35            = merge(local.plain_router, { routing_method_type = "RenormalizeNaive" })
    step3p7           = merge(local.plain_router, { scoring_func = "sigmoid", routed_scaling_factor = 3, has_correction_bias = true })
  }
}
