package pyhost

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
)

// The words of bindings. Workers read all but version.
var (
	functionWords  = []string{"args", "columns", "env", "file", "function", "module", "version"}
	collectorWords = append([]string{"cache", "fills_memory", "getter", "isolate", "match", "uninitialised"},
		sharedWords...)
	ranksWords  = append([]string{"launcher", "ranks"}, sharedWords...)
	sharedWords = []string{"args", "columns", "env", "module", "perf_filename", "rename", "run", "version", "versions",
		"words"} // of collectors in one process or in ranks
)

// CheckBinding returns an error if a collect binds its op with a word that has no effect.
func CheckBinding(bind map[string]any) error {
	has := func(word string) bool {
		_, ok := bind[word]
		return ok
	}

	what, words := "a function", functionWords
	switch {
	case has("ranks"):
		what, words = "a collector in ranks", ranksWords
	case slices.ContainsFunc([]string{"run", "getter", "versions", "match", "perf_filename"}, has): // as in host.py
		what, words = "a collector", collectorWords
	}

	for _, word := range slices.Sorted(maps.Keys(bind)) {
		if !slices.Contains(words, word) {
			return fmt.Errorf("the binding of %s has no %q.%s It has %s", what, word, textutil.DidYouMean(word, words),
				strings.Join(slices.Sorted(slices.Values(words)), ", "))
		}
	}
	return nil
}
