package checkpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Explain lists the differences between two JSON inputs, one line each, sorted by path:
// "measure.samples 6 -> 12", "axis.m + 8192", "env.driver added (580)". It returns no lines if the
// inputs have the same value. Input that is not JSON gives one line that reports it.
func Explain(old, now json.RawMessage) []string {
	a, errA := decodeJSON(old)
	b, errB := decodeJSON(now)
	switch {
	case errA != nil:
		return []string{"the earlier inputs are not readable"}
	case errB != nil:
		return []string{"the inputs are not readable: " + errB.Error()}
	}

	var d differ
	d.compare("", a, b)
	slices.Sort(d.lines)
	return d.lines
}

type differ struct{ lines []string }

func (d *differ) add(path, format string, args ...any) {
	if path == "" {
		path = "inputs"
	}
	d.lines = append(d.lines, path+" "+fmt.Sprintf(format, args...))
}

func (d *differ) compare(path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			d.objects(path, a, b)
			return
		}

	case []any:
		if b, ok := b.([]any); ok {
			d.lists(path, a, b)
			return
		}
	}

	if canon(a) != canon(b) {
		d.add(path, "%s -> %s", brief(a), brief(b))
	}
}

func (d *differ) objects(path string, a, b map[string]any) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		va, inA := a[k]
		vb, inB := b[k]
		at := join(path, k)

		switch {
		case !inA:
			d.add(at, "added (%s)", brief(vb))
		case !inB:
			d.add(at, "removed (was %s)", brief(va))
		default:
			d.compare(at, va, vb)
		}
	}
}

// lists compares two lists: objects with unique names by name, other objects of lists with equal length by
// position, anything else as ordered sets.
func (d *differ) lists(path string, a, b []any) {
	if na, nb := named(a), named(b); na != nil && nb != nil {
		before := len(d.lines)
		d.objects(path, na, nb)
		if len(d.lines) == before && canon(a) != canon(b) {
			d.add(path, "in another order")
		}
		return
	}

	plain := scalars(a) && scalars(b)
	if len(a) == len(b) && !plain {
		for i := range a {
			d.compare(path+"["+strconv.Itoa(i)+"]", a[i], b[i])
		}
		return
	}

	added, removed := without(b, a), without(a, b)
	switch {
	case len(added)+len(removed) == 0 && canon(a) == canon(b):
	case len(added)+len(removed) == 0:
		d.add(path, "in another order")
	case plain && len(a) <= 4 && len(b) <= 4:
		d.add(path, "%s -> %s", brief(a), brief(b))
	default:
		var parts []string
		if len(added) > 0 {
			parts = append(parts, "+ "+several(added))
		}
		if len(removed) > 0 {
			parts = append(parts, "- "+several(removed))
		}
		d.add(path, "%s (%d -> %d values)", strings.Join(parts, ", "), len(a), len(b))
	}
}

// without returns the elements of a that are not in b, in the order of a. Repeated elements are
// counted.
func without(a, b []any) []any {
	have := map[string]int{}
	for _, v := range b {
		have[canon(v)]++
	}

	var out []any
	for _, v := range a {
		if c := canon(v); have[c] > 0 {
			have[c]--
		} else {
			out = append(out, v)
		}
	}

	return out
}

// named returns the objects of a list by their name or address. It returns nil if an element has no
// name or if two share one.
func named(list []any) map[string]any {
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]any, len(list))
	for _, v := range list {
		name := nameOf(v)
		if _, twice := out[name]; name == "" || twice {
			return nil
		}
		out[name] = v
	}

	return out
}

func nameOf(v any) string {
	obj, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	for _, k := range []string{"name", "address"} {
		if s, ok := obj[k].(string); ok && s != "" {
			return s
		}
	}

	return ""
}

func scalars(list []any) bool {
	for _, v := range list {
		switch v.(type) {
		case map[string]any, []any:
			return false
		}
	}

	return true
}

// canon returns a decoded value as JSON.
func canon(v any) string {
	_, canonical, err := Key(v)
	if err != nil {
		return fmt.Sprint(v) // cannot happen: the value was JSON
	}
	return string(canonical)
}

// join appends a member to a path: "a.b", or `a["b c"]` if the key needs quotes.
func join(path, key string) string {
	plain := key != "" && !unicode.IsDigit(rune(key[0]))
	for _, r := range key {
		if r != '_' && r != '-' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			plain = false
		}
	}

	switch {
	case !plain:
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}

	return path + "." + key
}

// brief returns a short text form of a value, at most 60 characters.
func brief(v any) string {
	const most = 60
	var text string
	switch v := v.(type) {
	case string:
		if d := short(v); d != v {
			return d
		}
		text = strconv.Quote(v)

	case []any:
		if len(v) > 4 {
			text = fmt.Sprintf("[%s]", several(v))
		} else {
			parts := make([]string, len(v))
			for i, e := range v {
				parts[i] = brief(e)
			}
			text = "[" + strings.Join(parts, ", ") + "]"
		}

	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if len(parts) == 3 {
				parts = append(parts, fmt.Sprintf("and %d more", len(v)-3))
				break
			}
			parts = append(parts, k+" = "+brief(v[k]))
		}

		text = "{" + strings.Join(parts, ", ") + "}"

	default:
		text = canon(v)
	}

	if r := []rune(text); len(r) > most {
		text = string(r[:most-13]) + "..." + string(r[len(r)-10:])
	}

	return text
}

// several returns the first values of a list as text.
func several(list []any) string {
	const shown = 5
	var parts []string
	for i, v := range list {
		if i == shown && len(list) > shown+1 {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-shown))
			break
		}
		parts = append(parts, brief(v))
	}

	return strings.Join(parts, ", ")
}
