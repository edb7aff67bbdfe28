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
func Words(column string) []string { return slices.Clone(builtIn().Words[column]) }

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
	words, ok := builtIn().Words[column]
	if !ok {
		return word, nil
	}
	if slices.Contains(words, word) {
		return word, nil
	}
	if now, ok := builtIn().Renamed[word]; ok && slices.Contains(words, now) {
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
}

// LookupBackend finds a backend by name.
func LookupBackend(name string) (Backend, bool) {
	for _, b := range builtIn().Backends {
		if b.Name == name {
			return b, true
		}
	}
	return Backend{}, false
}

// BackendOf finds the backend of a framework label. Files spell labels in more
// than one way ("VLLM" and "vLLM"), so case does not count.
func BackendOf(framework string) (Backend, bool) {
	for _, b := range builtIn().Backends {
		if strings.EqualFold(b.Framework, framework) {
			return b, true
		}
	}
	return Backend{}, false
}
