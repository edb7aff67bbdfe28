package trace

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A Rule says that kernels with a certain name are collectives of one kind.
type Rule struct {
	Kind   string // all_reduce, all_gather, ...
	Regexp *regexp.Regexp
	Origin string // library that has such kernels
}

// Rules are tried in order; the first that matches decides.
type Rules []Rule

//go:embed rules.csv
var builtin string

// DefaultRules are the collectives of NCCL, RCCL, PyTorch's symmetric memory,
// vLLM, SGLang, TensorRT-LLM, FlashInfer, DeepEP and NVSHMEM.
func DefaultRules() Rules {
	r, err := ParseRules(strings.NewReader(builtin), "built-in rules")
	if err != nil {
		panic(err) // embedded: a test parses them
	}
	return r
}

// ParseRules reads a table of rules: CSV without a header, the columns kind,
// regular expression (RE2) and origin, of which the last may be left away. Lines
// that start with # are comments. A kind "compute" takes kernels out of the
// collectives. Errors name the file and the line.
func ParseRules(r io.Reader, name string) (Rules, error) {
	cr := csv.NewReader(r)
	cr.Comment, cr.FieldsPerRecord = '#', -1
	var out Rules
	for {
		rec, err := cr.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := cr.FieldPos(0)
		if len(rec) < 2 || len(rec) > 3 || strings.TrimSpace(rec[0]) == "" || rec[1] == "" {
			return nil, fmt.Errorf("%s:%d: a rule is kind,regular expression[,origin]", name, line)
		}
		re, err := regexp.Compile(rec[1])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		rule := Rule{Kind: strings.TrimSpace(rec[0]), Regexp: re}
		if len(rec) == 3 {
			rule.Origin = rec[2]
		}
		out = append(out, rule)
	}
}

// Compute is the kind of a rule that takes kernels out of the collectives.
const Compute = "compute"

// match returns the index of the first rule for a kernel name, -1 for none.
func (r Rules) match(name string) int {
	for i := range r {
		if r[i].Regexp.MatchString(name) {
			return i
		}
	}
	return -1
}
