package testutil

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A Trial is a case of an op that has all parameters but one, or all.
type Trial struct {
	Op      string
	Without string // the parameter that is left out; "" if none is
	Params  map[string]any
}

// Trials are the cases that show whether needs, against which plans are checked,
// agrees with the ops themselves: of each op one with all that it needs, and one
// without each of them. The values come from sample.
func Trials(t *testing.T, ops []string, needs map[string][]string, sample map[string]any) (out []Trial) {
	t.Helper()
	if got, want := slices.Sorted(maps.Keys(needs)), slices.Sorted(slices.Values(ops)); !slices.Equal(got, want) {
		t.Fatalf("the ops are %v, there are needs of %v", want, got)
	}
	for op, names := range needs {
		for _, without := range append([]string{""}, names...) {
			params := map[string]any{}
			for _, n := range names {
				if n != without {
					params[n] = sample[n]
				}
			}
			out = append(out, Trial{op, without, params})
		}
	}
	return out
}

// Check judges what came of the trial; "" is no error. A case with all parameters
// may fail for another reason.
func (c Trial) Check(t *testing.T, err string) {
	t.Helper()
	if c.Without == "" {
		if strings.Contains(err, "is missing") {
			t.Errorf("%s with all that it needs: %s", c.Op, err)
		}
	} else if !strings.Contains(err, fmt.Sprintf("parameter %q is missing", c.Without)) {
		t.Errorf("%s without %s: %q", c.Op, c.Without, err)
	}
}
