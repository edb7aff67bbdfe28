package charts

import (
	"strings"
	"testing"
)

// TestLongNamesLeaveRoomForCells checks that the cells of a matrix keep most of its width.
func TestLongNamesLeaveRoomForCells(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"a", "fp8", strings.Repeat("long ", 40), strings.Repeat("ü", 90),
		strings.Repeat("x/", 300) + "end"} {
		names := []string{name + "1", name + "2", "b"}
		c := new(Chart)
		d := matrix(c, categories{name: "x", names: names}, categories{name: "y", names: names},
			make([]int, 9), coverClasses)

		if !(d.Box[2] >= width/2) {
			t.Errorf("%.20q...: the cells are %.0f wide, of %d", name, d.Box[2], int(width))
		}

		if !strings.Contains(c.Body, ">b<") {
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
