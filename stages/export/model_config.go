package export

import (
	"encoding/json"
	"slices"
	"strconv"
)

// modelConfig is what the model's config.json says. A field that it does not have,
// or that is no whole number (some models have a list of one value a layer), is
// null.
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
}

// languageParts are where models of several kinds of input have the configuration
// of their language model.
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
		"num_hidden_layers": &m.Layers, "num_attention_heads": &m.Heads, "num_key_value_heads": &m.KVHeads, "head_dim": &m.HeadDim,
		"hidden_size": &m.Hidden, "intermediate_size": &m.Inner, "vocab_size": &m.Vocab,
	} {
		*to = whole(all[name])
	}
	for _, name := range expertNames {
		if m.Experts == nil {
			m.Experts = whole(all[name])
		}
		var list []json.RawMessage
		m.PerLayer = m.PerLayer || json.Unmarshal(all[name], &list) == nil && len(list) > 0
	}
	m.Tied, m.Biased = yes(all["tie_word_embeddings"]), yes(all["attention_bias"]) || yes(all["mlp_bias"])
	return nil
}

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

// mixes says whether the model is a mixture of experts.
func (m *modelConfig) mixes() bool { return m.PerLayer || m.Experts != nil && *m.Experts > 1 }

func (m *modelConfig) headDim() *int {
	if m.HeadDim == nil && m.Hidden != nil && m.Heads != nil && *m.Heads > 0 {
		v := *m.Hidden / *m.Heads
		return &v
	}
	return m.HeadDim
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
	if !slices.Contains([]string{"llama", "mistral", "qwen2", "qwen3"}, m.Type) || m.mixes() || m.Biased ||
		m.Layers == nil || m.Heads == nil || m.Inner == nil || m.embedding() == nil || m.headDim() == nil {
		return nil
	}
	kv := *m.Heads
	if m.KVHeads != nil {
		kv = *m.KVHeads
	}
	h, d := *m.Hidden, *m.headDim()
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
