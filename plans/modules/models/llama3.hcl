# Llama 3.1: dense.

locals {
  llama3 = {
    architecture = "LlamaForCausalLM"

    attention = [{ profile = "llama3_8b", models = ["meta-llama/Meta-Llama-3.1-8B"], num_heads = 32, num_kv_heads = 8, head_dim = 128, window = 0, tp = [1, 2, 4, 8] }]

    projections = [{ model = "meta-llama/Meta-Llama-3.1-8B", hidden_size = 4096, inter_size = 14336, num_heads = 32, num_kv_heads = 8, head_dim = 128, vocab_size = 128256 }]
  }
}
