package export

import (
	"encoding/json"
	"testing"
)

// Configurations of models of all kinds are read; what they do not say in a way that
// is known is null, and never stops an export.
func TestModelConfig(t *testing.T) {
	t.Parallel()
	const dense = `"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256`
	for _, c := range []struct {
		name, config  string
		moe           bool
		dtype         string
		layers, heads int // 0: null
		params        int
	}{
		{"Llama 3.1 8B", `{"model_type": "llama", "torch_dtype": "bfloat16", ` + dense + `}`, false, "bfloat16", 32, 32, 8030261248},
		{"as newer Transformers write it", `{"model_type": "llama", "dtype": "bfloat16", "head_dim": null, "tie_word_embeddings": null, ` + dense + `}`, false, "bfloat16", 32, 32, 8030261248},
		{"with biases", `{"model_type": "llama", "attention_bias": true, ` + dense + `}`, false, "", 32, 32, 0},
		{"DeepSeek", `{"model_type": "deepseek_v3", "torch_dtype": "bfloat16", "n_routed_experts": 256, "num_hidden_layers": 61, "num_attention_heads": 128}`, true, "bfloat16", 61, 128, 0},
		{"Mixtral", `{"model_type": "mixtral", "num_local_experts": 8, ` + dense + `}`, true, "", 32, 32, 0},
		{"one that has no experts and says so", `{"model_type": "qwen3", "num_experts": 0, "num_hidden_layers": 36}`, false, "", 36, 0, 0},
		{"experts by layer", `{"model_type": "hunyuan_v1_moe", "num_experts": [1, 16, 16], "intermediate_size": [1, 2], "num_hidden_layers": 3}`, true, "", 3, 0, 0},
		{"a model that sees", `{"model_type": "llama4", "torch_dtype": "bfloat16", "text_config": {"model_type": "llama4_text", "num_local_experts": 16, "num_hidden_layers": 48, "num_attention_heads": 40}}`, true, "bfloat16", 48, 40, 0},
		{"a hybrid", `{"model_type": "nemotron_h", "num_hidden_layers": 52, "hybrid_override_pattern": "M-M*", "num_attention_heads": 32.0}`, false, "", 52, 0, 0},
		{"numbers as words", `{"model_type": 7, "num_hidden_layers": "32", "num_attention_heads": -1, "vocab_size": 1e99, "text_config": [], "torch_dtype": {}}`, false, "", 0, 0, 0},
		{"nothing", `null`, false, "", 0, 0, 0},
	} {
		var facts cellFacts
		if err := json.Unmarshal([]byte(`{"model_config": `+c.config+`}`), &facts); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		m := facts.Config
		if m == nil {
			m = &modelConfig{}
		}
		number := func(p *int) int {
			if p == nil {
				return 0
			}
			return *p
		}
		if m.mixes() != c.moe || m.DType != c.dtype || number(m.Layers) != c.layers || number(m.Heads) != c.heads || number(m.params()) != c.params {
			t.Errorf("%s: moe %v, dtype %q, layers %d, heads %d, params %d", c.name, m.mixes(), m.DType, number(m.Layers), number(m.Heads), number(m.params()))
		}
	}
}
