package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
)

// Explain lists the differences between two JSON inputs, one line each, sorted by path:
// "measure.samples 6 -> 12", "axis.m + 8192", "env.driver added (580)". It returns no lines if the
// inputs have the same value. Input that is not JSON gives one line that reports it.
func Explain(old, now json.RawMessage) []string {
	a, errA := decodeJSON(old)
	b, errB := decodeJSON(now)
	if err := errors.Join(errA, errB); err != nil {
		return []string{"the inputs are not readable: " + err.Error()}
	}

	lines := differences("", a, b)
	slices.Sort(lines)
	return lines
}

// differences compares objects by their members, lists of named objects by name, other lists of objects of equal length
// by position, and anything else as ordered sets.
func differences(path string, a, b any) []string {
	if canon(a) == canon(b) {
		return nil
	}

	at := cmp.Or(path, "inputs") + " "
	if a, b := members(a), members(b); a != nil && b != nil {
		lines := changedMembers(path, a, b)
		if len(lines) == 0 {
			lines = []string{at + "in another order"}
		}
		return lines
	}

	listA, okA := a.([]any)
	listB, okB := b.([]any)
	added, removed := without(listB, listA), without(listA, listB)
	switch {
	case okA && okB && len(listA) == len(listB) && isObject(listA[0]):
		var lines []string
		for i := range listA {
			lines = append(lines, differences(fmt.Sprintf("%s[%d]", path, i), listA[i], listB[i])...)
		}
		return lines
	case okA && okB && len(added)+len(removed) == 0:
		return []string{at + "in another order"}
	case !okA || !okB || len(listA) <= 4 && len(listB) <= 4:
		return []string{at + brief(a) + " -> " + brief(b)}
	}

	var parts []string
	if len(added) > 0 {
		parts = append(parts, "+ "+textutil.First(added, 5, ", "))
	}
	if len(removed) > 0 {
		parts = append(parts, "- "+textutil.First(removed, 5, ", "))
	}
	return []string{fmt.Sprintf("%s%s (%d -> %d values)", at, strings.Join(parts, ", "), len(listA), len(listB))}
}

func changedMembers(path string, a, b map[string]any) (lines []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for k := range all {
		at := join(path, k)
		va, before := a[k]
		vb, after := b[k]
		switch {
		case !before:
			lines = append(lines, fmt.Sprintf("%s added (%s)", at, brief(vb)))
		case !after:
			lines = append(lines, fmt.Sprintf("%s removed (was %s)", at, brief(va)))
		default:
			lines = append(lines, differences(at, va, vb)...)
		}
	}
	return lines
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// without returns the elements of a that are not in b as text, in the order of a. Repeated elements are
// counted.
func without(a, b []any) []string {
	have := map[string]int{}
	for _, v := range b {
		have[canon(v)]++
	}

	var out []string
	for _, v := range a {
		if c := canon(v); have[c] > 0 {
			have[c]--
		} else {
			out = append(out, brief(v))
		}
	}

	return out
}

// members returns the members of an object, or the objects of a list by their name or address. It returns nil for other
// values, and if an element of the list has no name or two share one.
func members(v any) map[string]any {
	if object, ok := v.(map[string]any); ok {
		return object
	}

	list, _ := v.([]any)
	out := make(map[string]any, len(list))
	for _, e := range list {
		object, _ := e.(map[string]any)
		name, _ := object["name"].(string)
		address, _ := object["address"].(string)
		key := cmp.Or(name, address)
		if _, twice := out[key]; key == "" || twice {
			return nil
		}
		out[key] = e
	}

	if len(out) == 0 {
		return nil
	}
	return out
}

// canon returns a decoded value as JSON.
func canon(v any) string {
	_, canonical := MustKey(v)
	return string(canonical)
}

var plainKey = regexp.MustCompile(`^[\pL_.-][\pL\d_.-]*$`)

// join appends a member to a path: "a.b", or `a["b c"]` if the key needs quotes.
func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// brief returns a value as JSON of at most 60 characters, or a digest without its last digits.
func brief(v any) string {
	if s, ok := v.(string); ok && short(s) != s {
		return short(s)
	}
	return textutil.Clip(canon(v), 60)
}
