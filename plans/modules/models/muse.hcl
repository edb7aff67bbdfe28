# Muse Glimmer: dense; layers with a sliding window alternate with global ones.

locals {
  muse_glimmer = {
    architecture = "MuseGlimmerForConditionalGeneration"
    cases        = "aisimulate-0.13"

    attention = [
      { profile = "muse_glimmer_swa", models = ["meta-models/Muse-Glimmer-30B"], num_heads = 32, num_kv_heads = 2, head_dim = 128, window = 2048, tp = [1, 2, 4, 8] },
      { profile = "muse_glimmer_global", models = ["meta-models/Muse-Glimmer-30B"], num_heads = 32, num_kv_heads = 2, head_dim = 128, window = 0, tp = [1, 2, 4, 8] },
    ]
  }
}
