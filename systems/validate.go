package systems

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"aicplan/sink/base/textutil"
)

// Problem is one error in a system file, with its position and a suggested fix.
type Problem struct {
	File      string
	Line, Col int    // from 1; 0 if the problem has no position, for example a missing file
	Path      string // "gpu.mem_bw"
	Message   string
	Fix       string // what to write instead; may be empty
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}

	b.WriteString(": ")
	b.WriteString(p.Message)
	if p.Fix != "" {
		b.WriteString("; ")
		b.WriteString(p.Fix)
	}

	return b.String()
}

// Problems are all errors of a file in file order. Problems implements error.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Parse parses a system from src. file is the name shown in messages; its base name without
// extension becomes the name of the system. Parse reports all problems, not only the first. The
// spec is nil if there are problems.
func Parse(file string, src []byte) (*Spec, Problems) {
	r := &reader{file: file, values: map[string]any{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		line := 0
		if _, err := fmt.Sscanf(strings.TrimPrefix(err.Error(), "yaml: "), "line %d:", &line); err != nil {
			line = 0
		}
		return nil, Problems{{File: file, Line: line, Col: min(line, 1),
			Message: "this is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}}
	}

	if len(doc.Content) == 0 {
		return nil, Problems{{File: file, Message: "the file is empty", Fix: "start from a built-in system"}}
	}

	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		r.report(top, "", "a system is a mapping with data_dir, gpu, node and misc", "")
		return nil, r.problems
	}

	r.section("", top)
	r.missing(top)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, r.problems
	}

	spec := &Spec{Name: nameOf(file), values: r.values}
	if err := spec.bind(); err != nil {
		panic("systems: " + err.Error()) // the values were checked
	}
	return spec, nil
}

type reader struct {
	file     string
	values   map[string]any
	nodes    map[string]*yaml.Node
	problems Problems
}

func (r *reader) report(n *yaml.Node, path, message, fix string) {
	r.problems = append(r.problems, Problem{File: r.file, Line: n.Line, Col: n.Column, Path: path, Message: message,
		Fix: fix})
}

// section reads one mapping of the format.
func (r *reader) section(name string, m *yaml.Node) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		k, v := m.Content[i], m.Content[i+1]
		path := k.Value
		if name != "" {
			path = name + "." + k.Value
		}

		if seen[k.Value] {
			r.report(k, path, path+" is stated twice", "keep one of the two lines")
			continue
		}

		seen[k.Value] = true
		if name == "" && slices.Contains(sections, k.Value) {
			if v.Kind != yaml.MappingNode {
				r.report(v, path, path+" must be a mapping", "")
				continue
			}
			if r.nodes == nil {
				r.nodes = map[string]*yaml.Node{}
			}

			r.nodes[k.Value] = k
			r.section(k.Value, v)
			continue
		}

		f := fieldOf(name, k.Value)
		if f == nil {
			r.report(k, path, fmt.Sprintf("there is no field %s", path), didYouMean(name, k.Value))
			continue
		}

		val, fault := f.read(v)
		if fault != nil {
			r.report(v, path, path+" "+fault.message, fault.fix)
			continue
		}
		r.values[path] = val
	}
}

// missing reports required fields that are absent. It skips fields whose line has a problem, and
// fields that were suggested for a misspelt key, because those are already reported.
func (r *reader) missing(top *yaml.Node) {
	reported := r.problems
	for _, f := range fields() {
		if !f.Required || r.values[f.path()] != nil {
			continue
		}

		if slices.ContainsFunc(reported, func(p Problem) bool {
			return p.Path == f.path() || strings.Contains(p.Fix, f.path()+"?")
		}) {
			continue
		}

		at := top
		if n := r.nodes[f.Section]; n != nil {
			at = n
		}

		msg := fmt.Sprintf("%s is missing", f.path())
		if f.Unit != "" {
			msg += fmt.Sprintf(" (%s)", f.Unit)
		}

		r.report(at, f.path(), msg, "")
	}
}

// didYouMean suggests a fix for an unknown key: a similar key in the same section, or the section
// that has this key.
func didYouMean(section, key string) string {
	if near := textutil.Near(key, keysOf(section), 1); len(near) > 0 {
		f := &field{Section: section, Key: near[0]}
		return "did you mean " + f.path() + "?"
	}

	for _, f := range fields() {
		if f.Key == key {
			return "it belongs under " + f.Section
		}
	}

	at := section
	if at == "" {
		at = "the top"
	}

	return "the fields of " + at + " are " + strings.Join(keysOf(section), ", ")
}

// fault describes a problem with a value, without its position.
type fault struct{ message, fix string }

// read validates and converts one value.
func (f *field) read(n *yaml.Node) (any, *fault) {
	if f.Kind == byGPUs {
		return f.readByGPUs(n)
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return nil, &fault{message: "needs a value"}
	}

	if f.Kind == text {
		if n.Tag != "!!str" {
			return nil, &fault{fmt.Sprintf("is text, but %s is read as a number", n.Value),
				fmt.Sprintf("quote it: '%s'", n.Value)}
		}
		if strings.TrimSpace(n.Value) == "" {
			return nil, &fault{message: "is empty"}
		}

		return n.Value, nil
	}

	x, err := parseNumber(n)
	if err != nil {
		return nil, err
	}
	if err := f.plausible(x, n.Value); err != nil {
		return nil, err
	}

	if f.Kind == number {
		if i := int64(x); n.Tag == "!!int" && float64(i) == x {
			return i, nil
		}
		return x, nil
	}

	if x != math.Trunc(x) {
		return nil, &fault{message: fmt.Sprintf("must be a whole number, not %s", n.Value)}
	}

	return int64(x), nil
}

func parseNumber(n *yaml.Node) (float64, *fault) {
	// ParseFloat accepts both 3e9 and 3e+9, as YAML 1.2 does.
	x, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || n.Style == yaml.SingleQuotedStyle || n.Style == yaml.DoubleQuotedStyle {
		return 0, &fault{message: fmt.Sprintf("must be a number, not %q", n.Value)}
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, &fault{message: fmt.Sprintf("must be finite, not %s", n.Value)}
	}

	return x, nil
}

// plausible detects a wrong unit by the magnitude of the number.
func (f *field) plausible(x float64, written string) *fault {
	if x >= f.Lo && x <= f.Hi {
		return nil
	}
	if x < 0 {
		return &fault{message: fmt.Sprintf("must not be negative, and is %s", written)}
	}

	for _, s := range f.Scales {
		if y := x * s.Factor; y >= f.Lo && y <= f.Hi {
			return &fault{fmt.Sprintf("is %s; that looks like %s, and the unit is %s", written, s.Unit, f.Unit),
				"write " + plain(y)}
		}
	}

	return &fault{
		message: fmt.Sprintf("is %s; between %s and %s %s would be plausible", written, short(f.Lo), short(f.Hi), f.Unit),
	}
}

// plain formats a number without an exponent, rounded to 12 significant digits.
func plain(x float64) string {
	if r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 12, 64), 64); err == nil {
		x = r
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

func (f *field) readByGPUs(n *yaml.Node) (any, *fault) {
	if n.Kind != yaml.MappingNode {
		return nil, &fault{message: "must be a mapping from number of GPUs to bytes"}
	}
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		gpus, err := strconv.Atoi(k.Value)
		if err != nil || gpus < 1 {
			return nil, &fault{message: fmt.Sprintf("has the key %q, which is no number of GPUs", k.Value)}
		}

		x, fault := parseNumber(v)
		if fault != nil {
			return nil, fault
		}

		if x != 0 { // a single GPU reserves nothing
			if err := f.plausible(x, v.Value); err != nil {
				return nil, err
			}
		}

		out[k.Value] = int64(x)
	}

	if len(out) == 0 {
		return nil, &fault{message: "is empty"}
	}

	return out, nil
}
