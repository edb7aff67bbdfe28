package server

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
)

// placeholder matches {name}. It does not match JSON, whose braces are followed by quotes.
var placeholder = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)\}`)

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
		v, ok := values[m[1:len(m)-1]]
		if !ok && missing == "" {
			missing = m[1 : len(m)-1]
		}
		return v
	})

	if missing != "" {
		have := slices.Sorted(maps.Keys(values))
		return "", fmt.Errorf("%q has the placeholder {%s}, and neither the case nor aicplan has a value of that name; there are %s.%s",
			text, missing, strings.Join(have, ", "), textutil.DidYouMean(missing, have))
	}

	return out, nil
}
