package trace

import (
	_ "embed"
	"encoding/csv"
	"regexp"
	"strings"
)

// A Rule classifies kernels with a matching name as collectives of one kind.
type Rule struct {
	Kind   string // all_reduce, all_gather, ...
	Regexp *regexp.Regexp
	Origin string // library that contains such kernels
}

// Rules are tried in order. The first match wins.
type Rules []Rule

//go:embed rules.csv
var builtin string

// DefaultRules returns the rules for NCCL, RCCL, PyTorch's symmetric memory, vLLM, SGLang, TensorRT-LLM,
// FlashInfer, DeepEP and NVSHMEM. The file of the rules is CSV with the columns kind, regular expression (RE2) and
// origin. The kind "compute" excludes kernels from the collectives.
func DefaultRules() Rules {
	cr := csv.NewReader(strings.NewReader(builtin))
	cr.Comment = '#'
	records, err := cr.ReadAll()
	if err != nil {
		panic(err) // cannot happen, a test parses the embedded file
	}

	var out Rules
	for _, rec := range records {
		out = append(out, Rule{Kind: rec[0], Regexp: regexp.MustCompile(rec[1]), Origin: rec[2]})
	}
	return out
}

// Compute is the kind of kernels that are not collectives.
const Compute = "compute"

// match returns the index of the first matching rule, or -1.
func (r Rules) match(name string) int {
	for i := range r {
		if r[i].Regexp.MatchString(name) {
			return i
		}
	}
	return -1
}
