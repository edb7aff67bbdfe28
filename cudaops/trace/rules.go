package trace

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
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
// FlashInfer, DeepEP and NVSHMEM.
func DefaultRules() Rules {
	r, err := ParseRules(strings.NewReader(builtin), "built-in rules")
	if err != nil {
		panic(err) // cannot happen, a test parses the embedded file
	}
	return r
}

// RulesOf returns the rules of a file, followed by the built-in ones. An empty path means the built-in rules alone.
func RulesOf(path string) (Rules, error) {
	if path == "" {
		return DefaultRules(), nil
	}

	f, err := fileutil.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	own, err := ParseRules(f, path)
	return append(own, DefaultRules()...), err
}

// ParseRules parses a table of rules: CSV without a header, with the columns kind, regular expression (RE2)
// and optionally origin. Lines that start with # are comments. The kind "compute" excludes kernels from the
// collectives. Other kinds than those of the built-in rules are accepted unless they look like a misspelling of one.
// Errors contain the file name and the line.
func ParseRules(r io.Reader, name string) (Rules, error) {
	cr := csv.NewReader(r)
	cr.Comment, cr.FieldsPerRecord = '#', -1
	var out Rules
	known := []string{Compute, "dispatch", "combine"}
	for _, k := range kinds {
		known = append(known, k.kind)
	}

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
		if near := textutil.Nearest(rule.Kind, known); near != "" && len(rule.Kind) > 3 &&
			!slices.Contains(known, rule.Kind) && !strings.Contains(rule.Kind, near) &&
			!slices.Contains(strings.Split(near, "_"), rule.Kind) { // send is no misspelling of send_recv
			return nil, fmt.Errorf("%s:%d: no kind is called %q. Did you mean %q?", name, line, rule.Kind, near)
		}
		if len(rec) == 3 {
			rule.Origin = rec[2]
		}

		out = append(out, rule)
	}
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
