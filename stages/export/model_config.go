package export

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// modelConfig is a model's config.json. Numbers are 0 if a field that they need is missing or is not understood, such
// as a list with a value for each layer.
type modelConfig struct{ gjson.Result }

// languageParts are the fields in which models of several kinds of input have the
// configuration of the language model.
var languageParts = []string{"text_config", "llm_config", "language_config"}

// field returns a field of the model, or of its language model if the model lacks it. The type is that of the language
// model if there is one.
func (m modelConfig) field(name string) gjson.Result {
	own := m.Get(name)
	if present(own) && name != "model_type" {
		return own
	}

	for _, part := range languageParts {
		if v := m.Get(part + "." + name); present(v) {
			return v
		}
	}
	return own
}

// present reports whether a field exists and is not null.
func present(v gjson.Result) bool { return v.Type != gjson.Null }

// count returns a field that is a number of things.
func (m modelConfig) count(name string) int {
	n, err := strconv.Atoi(m.field(name).Raw)
	if err != nil || n < 0 || n > 1<<22 {
		return 0
	}
	return n
}

func (m modelConfig) is(types ...string) bool {
	return slices.Contains(types, m.field("model_type").Str)
}

// dtype returns the data type of the weights, or "".
func (m modelConfig) dtype() string { return cmp.Or(m.field("torch_dtype").Str, m.field("dtype").Str) }

// dense are the types of models that have no experts unless their configuration states
// some.
var dense = strings.Fields(`
	llama mistral ministral qwen2 qwen3 gemma gemma2 gemma3 gemma3_text phi phi3 gpt2 gpt_neox gptj opt falcon glm
	glm4 olmo olmo2 starcoder2 stablelm cohere cohere2 smollm3 exaone4 seed_oss`)

// expertNames are how models call the number of their experts.
var expertNames = []string{"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}

// mixes reports whether the model is a mixture of experts, if that is known.
func (m modelConfig) mixes() (several, known bool) {
	known = m.is(dense...) && !m.namesExperts()
	for _, name := range expertNames {
		v, n := m.field(name), m.count(name)
		known = known || n > 0 || v.Raw == "0"
		several = several || n > 1 || v.IsArray() && len(v.Array()) > 0 // a number for each layer
	}
	return several, known || several
}

// namesExperts reports whether the name of a field suggests experts.
func (m modelConfig) namesExperts() (found bool) {
	for _, part := range append([]string{"@this"}, languageParts...) {
		m.Get(part).ForEach(func(name, v gjson.Result) bool {
			word := strings.ToLower(name.Str)
			found = found || present(v) && (strings.Contains(word, "expert") || strings.Contains(word, "moe"))
			return true
		})
	}
	return found
}

// headDim returns the width of a head. Models of some types that do not state it divide the hidden size by their
// heads; those of other types may have heads of any width.
func (m modelConfig) headDim() int {
	heads := m.count("num_attention_heads")
	if !present(m.field("head_dim")) && m.is("llama", "mistral", "mixtral", "qwen2", "qwen2_moe") && heads > 0 {
		return m.count("hidden_size") / heads
	}
	return m.count("head_dim")
}

// kvHeads returns the heads of keys and values. Of the types whose weights are counted,
// only Llama has a known number if the configuration states none.
func (m modelConfig) kvHeads() int {
	const name = "num_key_value_heads"
	if !present(m.field(name)) && m.is("llama") {
		return m.count("num_attention_heads")
	}
	return m.count(name)
}

// embedding returns the number of weights of the embedding.
func (m modelConfig) embedding() int { return m.count("vocab_size") * m.count("hidden_size") }

// params returns the number of weights of a dense decoder, and 0 for other models.
func (m modelConfig) params() int {
	layers, heads, kv, dim := m.count("num_hidden_layers"), m.count("num_attention_heads"), m.kvHeads(), m.headDim()
	hidden, inner, embedding := m.count("hidden_size"), m.count("intermediate_size"), m.embedding()
	tied := m.field("tie_word_embeddings")
	moe, known := m.mixes()
	biased := func(name string) bool { return present(m.field(name)) && m.field(name).Type != gjson.False }
	if !m.is("llama", "mistral", "qwen2", "qwen3") || biased("attention_bias") || biased("mlp_bias") ||
		present(tied) && !tied.IsBool() || moe || !known ||
		slices.Contains([]int{layers, heads, kv, dim, hidden, inner, embedding}, 0) {
		return 0
	}

	layer := 2*hidden*heads*dim + 2*hidden*kv*dim + 3*hidden*inner + 2*hidden
	switch {
	case m.is("qwen3"):
		layer += 2 * dim // norms of queries and keys
	case m.is("qwen2"):
		layer += heads*dim + 2*kv*dim // biases
	}

	all := layers*layer + embedding + hidden
	if tied.Type != gjson.True {
		all += embedding
	}
	return all
}
