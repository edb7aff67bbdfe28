package grid

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"pgregory.net/rapid"
)

// idsOf maps the parameters of the cases to their ids.
func idsOf(t rapid.TB, src string) map[string]string {
	c := mustExpand(t, mustDecode(t, src))
	out := map[string]string{}
	for i := range c.Len() {
		out[string(c.ParamsJSON(i))] = c.ID(i)
	}
	return out
}

// TestIDIsDocumented pins the documented format. A change would make every stored measurement
// stale.
func TestIDIsDocumented(t *testing.T) {
	ids := idsOf(t, `
op = "gemm"
axis "m"     { values = [64] }
axis "alpha" { values = [1.01] }
axis "dtype" { values = ["fp8"] }
axis "bias"  { values = [false] }
axis "none"  { values = [null] }
`)

	// sha256 of gemm\nalpha=1.01\nbias=false\ndtype="fp8"\nm=64\nnone=null\n
	if got := slices.Collect(maps.Values(ids)); !slices.Equal(got, []string{"4bf26f587e1f40c34f9adb52abd98d2c"}) {
		t.Errorf("ids %v", got)
	}
}

func TestIDsAreStable(t *testing.T) {
	base := idsOf(t, `
op = "gemm"
axis "m"     { values = [1, 2] }
axis "dtype" { values = ["fp8"] }
`)

	if len(base) != 2 {
		t.Fatalf("%v", base)
	}

	for what, src := range map[string]string{
		"a further value": "op = \"gemm\"\naxis \"m\" { values = [1, 3, 2] }\naxis \"dtype\" { values = [\"fp8\", " +
			"\"bfloat16\"] }",
		"another order of axes": "op = \"gemm\"\ncolumns = [\"m\", \"dtype\"]\naxis \"dtype\" { values = [\"fp8\"] " +
			"}\naxis \"m\" { values = [2, 1] }",
		"rows instead of axes": "op = \"gemm\"\nrows \"r\" { values = [{ m = 1, dtype = \"fp8\" }, { m = 2, dtype = " +
			"\"fp8\" }] }",
		"integers from division": "op = \"gemm\"\ncolumns = [\"m\", \"dtype\"]\naxis \"two\" { values = [2, 4] }\naxis " +
			"\"dtype\" { values = [\"fp8\"] }\nderive \"m\" { value = two / 2 }",
		"a filter and a table": "op = \"gemm\"\nperf_table = \"gemm_perf\"\nconstants = { beam = 1 }\naxis \"m\" { values " +
			"= [1, 2] }\naxis \"dtype\" { values = [\"fp8\"] }\nfilter \"f\" {\n keep = m > 0\n reason = \"r\"\n}",
	} {
		got := idsOf(t, src)
		for params, id := range base {
			if got[params] != id {
				t.Errorf("%s changes the id of %s: %q, want %q", what, params, got[params], id)
			}
		}
	}

	other := idsOf(t, "op = \"gemm2\"\naxis \"m\" { values = [1, 2] }\naxis \"dtype\" { values = [\"fp8\"] }")
	for params, id := range base {
		if other[params] == id {
			t.Errorf("another op has the same id for %s", params)
		}
	}
}

// TestIDsTellValuesApart checks that text which looks like a number, or like the end of a value and
// the next name, has a distinct ID.
func TestIDsTellValuesApart(t *testing.T) {
	seen := map[string]string{}
	for _, src := range []string{
		`axis "a" { values = [1, 1.5, -1, 9223372036854775808, 1e300, 0] }`,
		`axis "a" { values = ["1", "true", "null", "1\nb=2", "1\"", "\\", ""] }`,
		`axis "a" { values = [true, false, null] }`,
	} {
		for params, id := range idsOf(t, "op = \"x\"\n"+src) {
			if old, dup := seen[id]; dup && old != params {
				t.Errorf("%s and %s have one id", old, params)
			}
			seen[id] = params
		}
	}

	if len(seen) != 6+7+3 {
		t.Errorf("%d ids", len(seen))
	}
}

func TestRecord(t *testing.T) {
	c := mustExpand(t, mustDecode(t, `
op        = "x"
constants = { k = 2.5 }
axis "i" { values = [1, null] }
axis "f" { values = [1, 0.5] }
axis "s" { values = ["a"] }
axis "b" { values = [true] }
`))
	r := c.Record()
	want := []string{"case_id utf8", "i int64", "f float64", "s utf8", "b bool", "k float64", "status utf8"}

	var got []string
	for _, f := range r.Schema().Fields() {
		got = append(got, f.Name+" "+f.Type.String())
	}

	if !slices.Equal(got, want) || r.NumRows() != 4 {
		t.Fatalf("%d rows of %v, want %v", r.NumRows(), got, want)
	}

	col := func(name string) arrow.Array { return r.Column(r.Schema().FieldIndices(name)[0]) }
	for row := range 4 {
		if id := col("case_id").(*array.String).Value(row); id != c.ID(row) || len(id) != IDLength {
			t.Errorf("row %d has id %q", row, id)
		}
		i := col("i").(*array.Int64)
		if i.IsNull(row) != (row >= 2) || !i.IsNull(row) && i.Value(row) != 1 {
			t.Errorf("row %d: i is %v", row, i)
		}

		if f := col("f").(*array.Float64).Value(row); f != []float64{1, 0.5, 1, 0.5}[row] {
			t.Errorf("row %d: f is %v", row, f)
		}
		if s := col("status").(*array.String).Value(row); s != "planned" {
			t.Errorf("row %d: status %q", row, s)
		}

		if k := col("k").(*array.Float64).Value(row); k != 2.5 {
			t.Errorf("row %d: constant %v", row, k)
		}
	}
}

// TestTableIsWhatItsSchemaSays checks the schema, which is available before any column is built,
// against the built columns.
func TestTableIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]string{"some": "i != 1", "none": "false"} {
		c := mustExpand(t, mustDecode(t, `
op        = "x"
constants = { none = null, word = "w", whole = 3 }
axis "i" { values = [1, null, 2] }
axis "gone" { values = [null, "a"] }
axis "nothing" { values = [null] }
axis "f" { values = [1, 0.5] }
axis "b" { values = [true, false] }
filter "kept" {
  keep   = `+keep+` && gone != null
  reason = "so that no null of gone is left"
}
`))
		r := c.Record()
		arrays := r.Columns()
		if len(arrays) != int(r.NumCols()) || len(arrays) != r.Schema().NumFields() {
			t.Fatalf("%s: %d columns, %d said, %d fields", name, len(arrays), r.NumCols(), r.Schema().NumFields())
		}

		for i, a := range arrays {
			f := r.Schema().Field(i)
			if int64(a.Len()) != r.NumRows() || f.Nullable != (a.NullN() > 0) ||
				!arrow.TypeEqual(f.Type, a.DataType()) || f.Name != r.ColumnName(i) || r.Column(i) != a {
				t.Errorf("%s: column %s has %d values, %d of them null, of %s; the schema says %v of %d rows", name,
					r.ColumnName(i), a.Len(), a.NullN(), a.DataType(), f, r.NumRows())
			}
		}

		whole := array.NewRecord(r.Schema(), arrays, r.NumRows())
		got, err := r.MarshalJSON()
		want, _ := whole.MarshalJSON()
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: as JSON %s, %v, want %s", name, got, err, want)
		}

		if n := r.NumRows(); n > 1 && !array.RecordEqual(r.NewSlice(1, n), whole.NewSlice(1, n)) {
			t.Errorf("%s: a slice differs", name)
		}

		other := array.NewNull(int(r.NumRows()))
		if _, err := r.SetColumn(0, other); err == nil {
			t.Errorf("%s: a column of another type was taken", name)
		}
		if with, err := r.SetColumn(0, arrays[0]); err != nil || !array.RecordEqual(with, whole) {
			t.Errorf("%s: the same column set again: %v", name, err)
		}
	}
}

// TestConcurrentUse expands and reads one spec from several goroutines. Run it with the race
// detector.
func TestConcurrentUse(t *testing.T) {
	spec := mustDecode(t, `
op = "x"
axis "a" { values = range(50) }
axis "b" { values = range(50) }
derive "c" { value = a % 7 }
filter "f" {
  keep   = a + c < b && length([for x in [1, 2] : x if x < b]) > 0
  reason = "r"
}
sweep "p" { values = [1, 2] }
`)

	shared := mustExpand(t, spec)
	var wg sync.WaitGroup
	digests := make([]string, 4)
	for i := range digests {
		wg.Go(func() {
			c := mustExpand(t, spec)
			digests[i] = fmt.Sprint(c.Digest() == shared.Digest(), shared.Record().Column(1).Len() == c.Len())
		})
	}

	wg.Wait()
	for _, d := range digests {
		if d != "true true" {
			t.Errorf("%v", digests)
		}
	}
}
