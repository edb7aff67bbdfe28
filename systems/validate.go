package systems

import (
	"cmp"
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
	text := p.File
	if p.Line > 0 {
		text += fmt.Sprintf(":%d:%d", p.Line, p.Col)
	}
	if text += ": " + p.Message; p.Fix != "" {
		text += "; " + p.Fix
	}
	return text
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
	r := &reader{file: file, values: map[string]any{}, nodes: map[string]*yaml.Node{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		line, why := 0, strings.TrimPrefix(err.Error(), "yaml: ")
		_, _ = fmt.Sscanf(why, "line %d:", &line) // 0 if there is none
		return nil, Problems{{File: file, Line: line, Col: min(line, 1), Message: "this is not YAML: " + why}}
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
	for pair := range slices.Chunk(m.Content, 2) {
		k, v := pair[0], pair[1]
		path := (&field{Section: name, Key: k.Value}).path()

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

			r.nodes[k.Value] = k
			r.section(k.Value, v)
			continue
		}

		f := fieldOf(name, k.Value)
		if f == nil {
			r.report(k, path, fmt.Sprintf("there is no field %s", path), didYouMean(name, k.Value))
			continue
		}

		val, wrong, fix := f.read(v)
		if wrong != "" {
			r.report(v, path, path+" "+wrong, fix)
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
		return "did you mean " + (&field{Section: section, Key: near[0]}).path() + "?"
	}

	for _, f := range fields() {
		if f.Key == key {
			return "it belongs under " + f.Section
		}
	}

	return "the fields of " + cmp.Or(section, "the top") + " are " + strings.Join(keysOf(section), ", ")
}

// read validates and converts one value. wrong describes a value that is not accepted, and fix what to write instead.
func (f *field) read(n *yaml.Node) (v any, wrong, fix string) {
	switch {
	case f.Kind == byGPUs:
		return f.readByGPUs(n)
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		return nil, "needs a value", ""
	case f.Kind == text && n.Tag != "!!str":
		return nil, fmt.Sprintf("is text, but %s is read as a number", n.Value), fmt.Sprintf("quote it: '%s'", n.Value)
	case f.Kind == text && strings.TrimSpace(n.Value) == "":
		return nil, "is empty", ""
	case f.Kind == text:
		return n.Value, "", ""
	}

	x, wrong, fix := f.number(n)
	switch {
	case wrong != "":
		return nil, wrong, fix
	case f.Kind == number && (n.Tag != "!!int" || float64(int64(x)) != x):
		return x, "", ""
	case x != math.Trunc(x):
		return nil, fmt.Sprintf("must be a whole number, not %s", n.Value), ""
	}
	return int64(x), "", ""
}

// number reads a number, and detects a wrong unit by its magnitude.
func (f *field) number(n *yaml.Node) (x float64, wrong, fix string) {
	// ParseFloat accepts both 3e9 and 3e+9, as YAML 1.2 does.
	x, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	switch {
	case err != nil || n.Style == yaml.SingleQuotedStyle || n.Style == yaml.DoubleQuotedStyle:
		return 0, fmt.Sprintf("must be a number, not %q", n.Value), ""
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0, fmt.Sprintf("must be finite, not %s", n.Value), ""
	case x >= f.Lo && x <= f.Hi, x == 0 && f.Kind == byGPUs: // a single GPU reserves nothing
		return x, "", ""
	case x < 0:
		return 0, fmt.Sprintf("must not be negative, and is %s", n.Value), ""
	}

	for _, s := range f.Scales {
		if y := x * s.Factor; y >= f.Lo && y <= f.Hi {
			return 0, fmt.Sprintf("is %s; that looks like %s, and the unit is %s", n.Value, s.Unit, f.Unit), "write " + plain(y)
		}
	}
	return 0, fmt.Sprintf("is %s; between %.4g and %.4g %s would be plausible", n.Value, f.Lo, f.Hi, f.Unit), ""
}

// plain formats a number without an exponent, rounded to 12 significant digits.
func plain(x float64) string {
	if r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 12, 64), 64); err == nil {
		x = r
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func (f *field) readByGPUs(n *yaml.Node) (v any, wrong, fix string) {
	if n.Kind != yaml.MappingNode {
		return nil, "must be a mapping from number of GPUs to bytes", ""
	}

	out := map[string]any{}
	for pair := range slices.Chunk(n.Content, 2) {
		gpus := pair[0].Value
		if n, err := strconv.Atoi(gpus); err != nil || n < 1 {
			return nil, fmt.Sprintf("has the key %q, which is no number of GPUs", gpus), ""
		}

		x, wrong, fix := f.number(pair[1])
		if wrong != "" {
			return nil, wrong, fix
		}
		out[gpus] = int64(x)
	}

	if len(out) == 0 {
		return nil, "is empty", ""
	}
	return out, "", ""
}
