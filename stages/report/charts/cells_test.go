package charts

import (
	"strings"
	"testing"
)

// TestLongNamesLeaveRoom: the cells of a matrix keep most of its width, however long
// the names of its rows and columns are.
func TestLongNamesLeaveRoom(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"a", "fp8", strings.Repeat("long ", 40), strings.Repeat("ü", 90),
		strings.Repeat("x/", 300) + "end"} {
		names := []string{name + "1", name + "2", "b"}
		m := &cells{nx: 3, ny: 3, class: make([]int, 9), classes: []string{"h0"}}
		body := matrix(m, "x", "y", names, names, 140)

		if !(m.box[2] >= width/2) {
			t.Errorf("%.20q...: the cells are %.0f wide, of %d", name, m.box[2], int(width))
		}

		if !strings.Contains(body, ">b<") {
			t.Errorf("%.20q...: short names are gone", name)
		}
	}

	if got := tickNames([]string{"a\u202eb"})[0]; got != `a\u202eb` {
		t.Errorf("%q takes another width when it is written", got)
	}

	if got := tickNames([]string{"Qwen/Qwen3-235B-A22B-Instruct", "Qwen/Qwen3-235B-A22B-Thinking"}); got[0] == got[1] {
		t.Errorf("two names look alike: %q", got)
	}
}
