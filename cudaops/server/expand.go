package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
)

// placeholder matches {name} and {name...}. It does not match JSON, whose braces are followed by quotes.
var placeholder = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)(\.\.\.)?\}`)

// spread matches an argument {name...}, which is replaced by a list of arguments.
var spread = regexp.MustCompile(`^\{([a-z_][a-z0-9_]*)\.\.\.\}$`)

// Placeholder reports whether the text is a single placeholder.
func Placeholder(text string) bool { return placeholder.FindString(text) == text && text != "" }

// Names returns the distinct placeholders of the texts.
func Names(texts ...string) []string {
	var out []string
	for _, text := range texts {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(out, m[1]) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// Expand replaces each {name} by its value. It returns an error for a placeholder without a value.
func Expand(text string, values map[string]string) (string, error) {
	var missing string
	out := placeholder.ReplaceAllStringFunc(text, func(m string) string {
		name := strings.Trim(m, "{}")
		v, ok := values[name]
		if !ok && missing == "" {
			missing = name
		}
		return v
	})

	if missing != "" {
		have := slices.Sorted(maps.Keys(values))
		return "", fmt.Errorf(
			"%q has the placeholder {%s}, and neither the case nor aicplan has a value of that name; there are %s.%s",
			text,
			missing,
			strings.Join(have, ", "),
			textutil.DidYouMean(missing, have),
		)
	}

	return out, nil
}

// ExpandAll replaces the placeholders in arguments. An argument {name...} is replaced by the elements of a
// JSON list of texts, which may be empty.
func ExpandAll(args []string, values map[string]string) ([]string, error) {
	var out []string
	for _, text := range args {
		m := spread.FindStringSubmatch(text)
		if m == nil {
			v, err := Expand(text, values)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
			continue
		}

		v, err := Expand("{"+m[1]+"}", values)
		if err != nil {
			return nil, err
		}
		if v == "" {
			continue
		}

		var list []string
		if err := json.Unmarshal([]byte(v), &list); err != nil {
			return nil, fmt.Errorf(
				"the argument %s needs a JSON list of texts, such as jsonencode([\"--enforce-eager\"]), and %s is %q",
				text,
				m[1],
				v,
			)
		}
		out = append(out, list...)
	}

	return out, nil
}
