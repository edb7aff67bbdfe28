package grid

import (
	"slices"
	"testing"
)

// TestPointIDIsThatOfAnAxis checks that a swept parameter and an axis produce the same IDs.
func TestPointIDIsThatOfAnAxis(t *testing.T) {
	swept := mustExpand(t, mustDecode(t, `
		op = "attention"
		axis "b" { values = [1, 2] }
		axis "dtype" { values = ["fp8", "bfloat16"] }
		sweep "s" { values = [16, 64, 128] }
	`))
	flat := mustExpand(t, mustDecode(t, `
		op = "attention"
		axis "s" { values = [16, 64, 128] }
		axis "dtype" { values = ["fp8", "bfloat16"] }
		axis "b" { values = [1, 2] }
	`))

	var got, want []string
	for i := range swept.Len() {
		got = append(got, swept.PointIDs(i)...)
	}

	for i := range flat.Len() {
		want = append(want, flat.ID(i))
		if !slices.Equal(flat.PointIDs(i), []string{flat.ID(i)}) {
			t.Errorf("case %d has another id as a point", i)
		}
	}

	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(slices.Compact(got)) != 12 {
		t.Errorf("points %v\ncases  %v", got, want)
	}
}
