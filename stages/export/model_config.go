package export

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// modelConfig has the values of a model's config.json. A field is nil if it is missing or is
// not an integer, such as a list with a value for each layer.
type modelConfig struct {
	Type     string
	DType    string
	Layers   *int
	Heads    *int
	KVHeads  *int
	HeadDim  *int
	Hidden   *int
	Inner    *int
	Vocab    *int
	Experts  *int
	Tied     bool
	Biased   bool // products of every layer have biases
	PerLayer bool // experts are given for each layer
	// Odd are fields with values that are not understood.
	Odd map[string]bool
	// Hints is true if an unknown field suggests experts.
	Hints bool
}

// dense are the types of models that have no experts unless their configuration states
// some.
var dense = []string{
	"llama", "mistral", "ministral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gemma3_text", "phi", "phi3",
	"gpt2", "gpt_neox", "gptj", "opt",
	"falcon", "glm", "glm4", "olmo", "olmo2", "starcoder2", "stablelm", "cohere", "cohere2", "smollm3",
	"exaone4", "seed_oss",
}

// languageParts are the fields in which models of several kinds of input have the
// configuration of the language model.
var languageParts = []string{"text_config", "llm_config", "language_config"}

// expertNames are how models call the number of their experts.
var expertNames = []string{"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}

// UnmarshalJSON implements json.Unmarshaler. Only what is no object is an error.
func (m *modelConfig) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}

	*m = modelConfig{}

	if all == nil {
		return nil
	}

	for _, name := range languageParts {
		var part map[string]json.RawMessage
		if json.Unmarshal(all[name], &part) != nil {
			continue
		}

		for k, v := range part {
			if own, ok := all[k]; !ok || k == "model_type" || string(own) == "null" {
				all[k] = v
			}
		}
	}

	m.Type, m.DType = word(all["model_type"]), word(all["torch_dtype"])
	if m.DType == "" {
		m.DType = word(all["dtype"])
	}

	for name, to := range map[string]**int{
		"num_hidden_layers": &m.Layers, "num_attention_heads": &m.Heads, "num_key_value_heads": &m.KVHeads,
		"head_dim":    &m.HeadDim,
		"hidden_size": &m.Hidden, "intermediate_size": &m.Inner, "vocab_size": &m.Vocab,
	} {
		*to = whole(all[name])
		m.odd(name, all[name], *to == nil)
	}

	for _, name := range expertNames {
		if m.Experts == nil {
			m.Experts = whole(all[name])
		}
		var list []json.RawMessage
		m.PerLayer = m.PerLayer || json.Unmarshal(all[name], &list) == nil && len(list) > 0
	}

	for name, v := range all {
		name = strings.ToLower(name)
		m.Hints = m.Hints || present(v) && (strings.Contains(name, "expert") || strings.Contains(name, "moe"))
	}

	m.Tied, m.Biased = yes(all["tie_word_embeddings"]), yes(all["attention_bias"]) || yes(all["mlp_bias"])
	for _, name := range []string{"tie_word_embeddings", "attention_bias", "mlp_bias"} {
		m.odd(name, all[name], string(all[name]) != "true" && string(all[name]) != "false")
	}

	return nil
}

// odd keeps the name of a field that is there, and unknown all the same.
func (m *modelConfig) odd(name string, raw json.RawMessage, unknown bool) {
	if unknown && present(raw) {
		if m.Odd == nil {
			m.Odd = map[string]bool{}
		}
		m.Odd[name] = true
	}
}

// present reports whether a field exists and is not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func yes(raw json.RawMessage) bool { return string(raw) == "true" }

// whole is a number of things; nil for anything else.
func whole(raw json.RawMessage) *int {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n > 1<<22 {
		return nil
	}
	return &n
}

// mixes reports whether the model is a mixture of experts. It returns nil if that is unknown.
func (m *modelConfig) mixes() *bool {
	several := m.PerLayer || m.Experts != nil && *m.Experts > 1
	if several || m.Experts != nil || slices.Contains(dense, m.Type) && !m.Hints {
		return &several
	}
	return nil
}

// headDim is the width of a head. Models that do not give it divide the hidden size
// by their heads; those of other types may have heads of any width.
func (m *modelConfig) headDim() *int {
	if m.HeadDim == nil && !m.Odd["head_dim"] &&
		slices.Contains([]string{"llama", "mistral", "mixtral", "qwen2", "qwen2_moe"}, m.Type) &&
		m.Hidden != nil && m.Heads != nil && *m.Heads > 0 {
		v := *m.Hidden / *m.Heads
		return &v
	}
	return m.HeadDim
}

// kvHeads are the heads of keys and values; of the types whose weights are counted,
// only Llama has a known number where the configuration gives none.
func (m *modelConfig) kvHeads() *int {
	if m.KVHeads == nil && !m.Odd["num_key_value_heads"] && m.Type == "llama" {
		return m.Heads
	}
	return m.KVHeads
}

func (m *modelConfig) embedding() *int {
	if m.Vocab == nil || m.Hidden == nil {
		return nil
	}
	v := *m.Vocab * *m.Hidden
	return &v
}

// params counts the weights of dense decoders; nil for others.
func (m *modelConfig) params() *int {
	if !slices.Contains([]string{"llama", "mistral", "qwen2", "qwen3"}, m.Type) || m.Biased ||
		m.Odd["tie_word_embeddings"] || m.Odd["attention_bias"] || m.Odd["mlp_bias"] ||
		m.Layers == nil || m.Heads == nil || m.kvHeads() == nil || m.Inner == nil || m.embedding() == nil ||
		m.headDim() == nil {
		return nil
	}

	if moe := m.mixes(); moe == nil || *moe {
		return nil
	}

	h, d, kv := *m.Hidden, *m.headDim(), *m.kvHeads()
	layer := 2*h**m.Heads*d + 2*h*kv*d + 3*h**m.Inner + 2*h
	if m.Type == "qwen3" {
		layer += 2 * d // norms of queries and keys
	}

	if m.Type == "qwen2" {
		layer += *m.Heads*d + 2*kv*d // biases
	}

	v := *m.Layers*layer + *m.embedding() + h
	if !m.Tied {
		v += *m.embedding()
	}

	return &v
}
