package grid

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
)

// TestPointSampleIsEveryNthPoint checks samples with and without a sweep.
func TestPointSampleIsEveryNthPoint(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"sweep": `
			op = "attention"
			axis "b" { values = [1, 2, 3] }
			axis "dtype" { values = ["fp8", "bfloat16"] }
			sweep "points" {
				columns = ["s"]
				case_set "one" {
					axis "s" { values = [1, 2, 4, 8] }
					filter "few" {
						keep   = s <= b + 1
						reason = "so that cases have other numbers of points"
					}
				}
			}
		`,
		"none": `
			op = "gemm"
			axis "m" { values = range(11) }
			axis "dtype" { values = ["fp8"] }
		`,
	} {
		c := mustExpand(t, mustDecode(t, body))
		all := c.PointRecord()
		if int(all.NumRows()) != c.Rows() || c.Rows() < 6 {
			t.Fatalf("%s: %d rows of %d points", name, all.NumRows(), c.Rows())
		}

		for step := range 13 {
			every := max(1, step)
			var rows, points []int32
			n := 0
			for i := range c.Len() {
				for j := range max(1, c.Sweep(i).Len()) {
					if n%every == 0 {
						rows, points = append(rows, int32(i)), append(points, int32(j))
					}
					n++
				}
			}

			some := c.PointsAt(rows, points)
			if want := (c.Rows() + every - 1) / every; int(some.NumRows()) != want {
				t.Fatalf("%s, step %d: %d rows, want %d", name, step, some.NumRows(), want)
			}

			for col := range all.Columns() {
				if !all.Schema().Field(col).Equal(some.Schema().Field(col)) {
					t.Errorf("%s, step %d: field %v, want %v", name, step, some.Schema().Field(col),
						all.Schema().Field(col))
				}

				for row := range int(some.NumRows()) {
					if !array.SliceEqual(all.Column(col), int64(row*every), int64(row*every+1), some.Column(col),
						int64(row), int64(row+1)) {
						t.Errorf("%s, step %d: row %d of %s differs", name, step, row, all.ColumnName(col))
					}
				}
			}
		}
	}
}
