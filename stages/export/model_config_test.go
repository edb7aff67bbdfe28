package export

import (
	"strconv"
	"testing"

	"github.com/tidwall/gjson"
)

// TestModelConfig reads configurations of all kinds of models. Values in unknown form are null and never stop an
// export.
func TestModelConfig(t *testing.T) {
	t.Parallel()
	const dense = `"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, ` +
		`"intermediate_size": 14336, "vocab_size": 128256`
	for _, c := range []struct {
		name, config  string
		moe           string // "": unknown
		dtype         string
		layers, heads int // 0: null
		params        int
	}{
		{"Llama 3.1 8B", `{"model_type": "llama", "torch_dtype": "bfloat16", ` + dense + `}`, "false", "bfloat16", 32,
			32, 8030261248},
		{"as newer Transformers write it", `{"model_type": "llama", "dtype": "bfloat16", "head_dim": null, ` +
			`"tie_word_embeddings": null, ` + dense + `}`, "false", "bfloat16", 32, 32, 8030261248},
		{"with biases", `{"model_type": "llama", "attention_bias": true, ` + dense + `}`, "false", "", 32, 32, 0},
		{"DeepSeek", `{"model_type": "deepseek_v3", "torch_dtype": "bfloat16", "n_routed_experts": 256, ` +
			`"num_hidden_layers": 61, "num_attention_heads": 128}`, "true", "bfloat16", 61, 128, 0},
		{"Mixtral", `{"model_type": "mixtral", "num_local_experts": 8, ` + dense + `}`, "true", "", 32, 32, 0},
		{"one that has no experts and says so", `{"model_type": "qwen3", "num_experts": 0, "num_hidden_layers": 36}`,
			"false", "", 36, 0, 0},
		{"experts by layer", `{"model_type": "hunyuan_v1_moe", "num_experts": [1, 16, 16], "intermediate_size": [1, 2], ` +
			`"num_hidden_layers": 3}`, "true", "", 3, 0, 0},
		{"a model that sees", `{"model_type": "llama4", "torch_dtype": "bfloat16", "text_config": {"model_type": ` +
			`"llama4_text", "num_local_experts": 16, "num_hidden_layers": 48, "num_attention_heads": 40}}`, "true", "bfloat16",
			48, 40, 0},
		{"a hybrid", `{"model_type": "nemotron_h", "num_hidden_layers": 52, "hybrid_override_pattern": "M-M*", ` +
			`"num_attention_heads": 32.0}`, "", "", 52, 0, 0},
		{"numbers as words", `{"model_type": 7, "num_hidden_layers": "32", "num_attention_heads": -1, "vocab_size": 1e99, ` +
			`"text_config": [], "torch_dtype": {}}`, "", "", 0, 0, 0},
		{"experts by a name that is not known",
			`{"model_type": "llama", "router": {}, "moe_layers": 4, ` + dense + `}`, "", "", 32, 32, 0},
		{"another type with experts by an unknown name",
			`{"model_type": "dbrx", "ffn_config": {"moe_num_experts": 16}, "num_hidden_layers": 40}`, "", "", 40, 0, 0},
		{"heads of keys by layer", `{"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, ` +
			`"num_key_value_heads": [8, 4], "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256}`, "false", "",
			32, 32, 0},
		{"Mistral without its heads of keys",
			`{"model_type": "mistral", "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, ` +
				`"intermediate_size": 14336, "vocab_size": 32000}`, "false", "", 32, 32, 0},
		{"tied in a way that is not known", `{"model_type": "llama", "tie_word_embeddings": "yes", ` + dense + `}`,
			"false", "", 32, 32, 0},
		{"nothing", `null`, "", "", 0, 0, 0},
	} {
		m := modelConfig{gjson.Parse(c.config)}
		moe := ""
		if several, known := m.mixes(); known {
			moe = strconv.FormatBool(several)
		}

		layers, heads := m.count("num_hidden_layers"), m.count("num_attention_heads")
		if moe != c.moe || m.dtype() != c.dtype || layers != c.layers || heads != c.heads ||
			m.params() != c.params {
			t.Errorf("%s: moe %q, dtype %q, layers %d, heads %d, params %d", c.name, moe, m.dtype(), layers, heads,
				m.params())
		}
	}
}

// The width of a head follows from the hidden size in some types only: DeepSeek's is
// another one.
func TestModelConfigHeadDim(t *testing.T) {
	t.Parallel()

	for config, want := range map[string]int{
		`{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}`:                       128,
		`{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "head_dim": 64}`:       64,
		`{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "head_dim": [64, 32]}`: 0,
		`{"model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128}`:                0,
		`{"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16}`:                       0,
	} {
		m := modelConfig{gjson.Parse(config)}
		if got := m.headDim(); got != want {
			t.Errorf("%s: %d, not %d", config, got, want)
		}
	}
}
