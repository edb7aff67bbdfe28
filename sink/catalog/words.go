package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
)

// Words returns the vocabulary of a column, or nil when any text is allowed.
// A reader that meets another word gives up on the whole table.
func Words(column string) []string { return slices.Clone(vocabulary[column]) }

var (
	gemmWords = []string{
		"bfloat16",
		"int8_wo",
		"int4_wo",
		"fp8",
		"fp8_static",
		"sq",
		"fp8_block",
		"fp8_ootb",
		"nvfp4",
		"nvfp4_wo",
		"w4a16_nvfp4",
	}
	mlaWords = []string{"bfloat16", "fp8", "fp8_block", "fp8_e4m3"}
)

var vocabulary = map[string][]string{
	"gemm_dtype": gemmWords,
	"gemm_type":  gemmWords,
	"quant_type": gemmWords,
	"moe_dtype": {
		"bfloat16",
		"fp8",
		"int4_wo",
		"fp8_block",
		"w4afp8",
		"nvfp4",
		"nvfp4_wo",
		"w4a16_mxfp4",
		"w4a8_mxfp4_mxfp8",
		"w4a8_mxfp4_mxfp8_trtllm",
		"w4a16_mxfp4_cutlass",
		"w4a16_mxfp4_humming",
		"w4a16_nvfp4",
	},
	"attn_dtype":      {"bfloat16", "fp8", "fp8_block"},
	"mla_dtype":       mlaWords,
	"kv_cache_dtype":  {"bfloat16", "int8", "fp8", "fp8_e4m3"},
	"bmm_dtype":       {"bfloat16", "fp8"},
	"quant_dtype":     {"fp8"},
	"nccl_dtype":      {"half", "int8", "fp8"},
	"allreduce_dtype": {"bfloat16", "half", "int8", "fp8"},
	"inference_phase": {"context", "generation"},
}

// renamed maps words of older files to their present names.
var renamed = map[string]string{"float16": "bfloat16"}

var distribution = regexp.MustCompile(`^(balanced|uniform|power_law_(sampled_)?\d+(\.\d+)?(_eplb)?)$`)

// Word returns the word as readers know it today: older spellings are
// translated. An unknown word is an error that names the known ones.
func Word(column, word string) (string, error) {
	if column == "distribution" {
		if !distribution.MatchString(word) {
			return "", fmt.Errorf("distribution %q is unknown; known are balanced, uniform and power_law_<alpha>", word)
		}
		return word, nil
	}
	words, ok := vocabulary[column]
	if !ok {
		return word, nil
	}
	if slices.Contains(words, word) {
		return word, nil
	}
	if now, ok := renamed[word]; ok && slices.Contains(words, now) {
		return now, nil
	}
	msg := fmt.Sprintf("%s %q is unknown", column, word)
	if n := textutil.Near(word, words, 3); len(n) > 0 {
		return "", fmt.Errorf("%s; did you mean %s?", msg, n[0])
	}
	return "", fmt.Errorf("%s; known are %s", msg, strings.Join(words, ", "))
}

// Backend is a producer of tables.
type Backend struct {
	Name      string // folder in a database: "trtllm"
	Framework string // its word in the framework column: "TRTLLM"
	Package   string // Python package whose version its rows carry; empty without one
}

var backends = []Backend{
	{"trtllm", "TRTLLM", "tensorrt_llm"},
	{"vllm", "VLLM", "vllm"},
	{"sglang", "SGLang", "sglang"},
	{"nccl", "NCCL", ""},
	{"oneccl", "oneCCL", ""},
	{"torch", "TORCH", "torch"},
	{"cuda", "CUDA", ""},
	{"cpu", "CPU", ""},
}

// LookupBackend finds a backend by name.
func LookupBackend(name string) (Backend, bool) {
	for _, b := range backends {
		if b.Name == name {
			return b, true
		}
	}
	return Backend{}, false
}

// BackendOf finds the backend of a framework label. Files spell labels in more
// than one way ("VLLM" and "vLLM"), so case does not count.
func BackendOf(framework string) (Backend, bool) {
	for _, b := range backends {
		if strings.EqualFold(b.Framework, framework) {
			return b, true
		}
	}
	return Backend{}, false
}
