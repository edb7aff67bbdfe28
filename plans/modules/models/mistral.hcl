# Mistral Medium 3.5: dense, with a Pixtral vision encoder.

locals {
  mistral3 = {
    architecture = "Mistral3ForConditionalGeneration"
    cases        = "aisimulate-0.13"

    attention = [{ profile = "mistral_medium_35", models = ["mistralai/Mistral-Medium-3.5-128B"], num_heads = 96, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8, 16] }]

    encoder = [{ profile = "mistral_medium_35_pixtral", models = ["mistralai/Mistral-Medium-3.5-128B"], num_heads = 16, head_dim = 104, tp = [1, 2, 4, 8, 16] }]
  }
}
