package table

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/google/go-cmp/cmp"
)

// rows builds a record from rows of JSON, one object per line.
func rows(t testing.TB, lines ...string) arrow.Record {
	t.Helper()
	b := NewBuilder()
	for _, line := range lines {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		var row map[string]any
		if err := dec.Decode(&row); err != nil {
			t.Fatal(err)
		}
		if err := b.Append(row); err != nil {
			t.Fatal(err)
		}
	}
	return b.Record()
}

func wantRecord(t *testing.T, got, want arrow.Record) {
	t.Helper()
	if d := difference(want, got); d != "" {
		t.Errorf("the table differs from what is wanted:\n%s", d)
	}
}

func wantErr(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q", err, text)
	}
}

func TestBuilderInfersTypes(t *testing.T) {
	b := NewBuilder(Field("z", nil), Field("power", Float64))
	for _, row := range []map[string]any{
		{"m": 1, "dtype": "fp8", "mixed": int64(3), "ok": true, "none": nil},
		{"m": uint8(2), "mixed": 2.5, "z": json.Number("7")},
		{"m": json.Number("3"), "ok": false, "late": "x"},
	} {
		if err := b.Append(row); err != nil {
			t.Fatal(err)
		}
	}
	rec := b.Record()
	var types []string
	for _, f := range rec.Schema().Fields() {
		types = append(types, f.Name+" "+TypeName(f.Type))
	}
	want := []string{"z int64", "power float64", "dtype string", "m int64", "mixed float64", "none string", "ok bool",
		"late string"}
	if d := cmp.Diff(want, types); d != "" {
		t.Error(d)
	}
	wantRow := map[string]any{"z": int64(7), "power": nil, "dtype": nil, "m": int64(2), "mixed": 2.5, "none": nil,
		"ok": nil, "late": nil}
	if d := cmp.Diff(wantRow, Row(rec, 1)); d != "" {
		t.Error(d)
	}
	if Value(rec, Index(rec, "mixed"), 0) != 3.0 {
		t.Error("the integer was not promoted")
	}
	if len(b.rows) != 0 {
		t.Error("the builder was not emptied")
	}
}

func TestBuilderRefusesAndKeepsGoing(t *testing.T) {
	b := NewBuilder(Field("n", Int64))
	for _, tc := range []struct {
		row  map[string]any
		want string
	}{
		{map[string]any{"n": "x"}, `column "n", row 0: "x" is string, the column is int64`},
		{map[string]any{"n": 1.5}, `column "n", row 0: 1.5 is float64, the column is int64`},
		{map[string]any{"a": "new", "n": true}, `is bool, the column is int64`},
		{map[string]any{"n": []int{1}}, `column "n", row 0: []int is not a value of a table`},
		{map[string]any{"n": uint64(math.MaxUint64)}, `too large for int64`},
		{map[string]any{"n": json.Number("1e999")}, `1e999 is not a float64`},
	} {
		wantErr(t, b.Append(tc.row), tc.want)
	}
	if err := b.Append(map[string]any{"n": 4, "a": 5}); err != nil {
		t.Fatal(err) // "a" is free to be an integer: the row that said string was refused
	}
	wantRecord(t, b.Record(), WithColumn(rows(t, `{"n":4}`), "a", Constant(5, 1)))
}

func TestReaders(t *testing.T) {
	rec := rows(t, `{"i":1,"f":1.5,"s":"a","b":true,"n":null}`, `{"i":null,"f":null,"s":null,"b":null}`,
		`{"i":3,"f":2.5,"s":"c","b":false}`)
	i, err := Int64s(rec, "i")
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := i.At(1); ok || v != 0 || !i.Null(1) || i.Nulls() != 1 || i.Len() != 3 || i.Values[2] != 3 {
		t.Errorf("ints: %+v", i)
	}
	f, err := Float64s(rec, "i")
	if err != nil || f.Values[2] != 3.0 || !f.Null(1) {
		t.Errorf("integers as floats: %+v, %v", f, err)
	}
	s, err := Strings(rec, "s")
	if err != nil || s.Values[0] != "a" || !s.Null(1) {
		t.Errorf("strings: %+v, %v", s, err)
	}
	b, err := Bools(rec, "b")
	if err != nil || !b.Values[0] || !b.Null(1) || b.Values[2] {
		t.Errorf("bools: %+v, %v", b, err)
	}
	if n, err := Float64s(rec, "n"); err != nil || n.Nulls() != 3 {
		t.Errorf("an empty column as floats: %+v, %v", n, err)
	}
	_, err = Int64s(rec, "s")
	wantErr(t, err, `column "s" is string, not int64`)
	_, err = Strings(rec, "q")
	wantErr(t, err, `no column "q"; there are: b, f, i, n, s`)
}

func TestConcatUnitesSchemas(t *testing.T) {
	a := rows(t, `{"m":1,"x":1,"gone":"g"}`)
	b := rows(t, `{"m":2,"x":0.5,"power":null}`)
	c := rows(t, `{"m":3,"x":null,"power":700.5}`)
	got, err := Concat(a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	want := rows(t, `{"gone":"g","m":1,"x":1.0}`, `{"m":2,"x":0.5}`, `{"m":3,"power":700.5}`)
	wantRecord(t, got, want)

	_, err = Concat(a, rows(t, `{"m":"one"}`))
	wantErr(t, err, `column "m" is int64 in one table and string in another`)
	_, err = Concat()
	wantErr(t, err, "nothing to concatenate")
	if empty, err := Concat(a.NewSlice(0, 0), b.NewSlice(0, 0)); err != nil || empty.NumRows() != 0 ||
		empty.NumCols() != 4 {
		t.Errorf("empty tables: %v, %v", empty, err)
	}
}

func TestSelectDropWithColumn(t *testing.T) {
	rec := rows(t, `{"a":1,"b":2,"c":3}`)
	got, err := Select(rec, "c", "a")
	if err != nil || strings.Join(Names(got), " ") != "c a" {
		t.Errorf("Select: %v, %v", got, err)
	}
	_, err = Select(rec, "nope")
	wantErr(t, err, `no column "nope"`)
	if got := Drop(rec, "b", "nope"); strings.Join(Names(got), " ") != "a c" {
		t.Errorf("Drop: %v", Names(got))
	}
	got = WithColumn(WithColumn(rec, "b", Constant("x", 1)), "d", Constant(1.5, 1))
	wantRecord(t, got, rows(t, `{"a":1,"b":"x","c":3,"d":1.5}`))
	if Value(rec, 1, 0) != int64(2) {
		t.Error("WithColumn changed its input")
	}
}

func TestSortOrdersNullsLastAndIsStable(t *testing.T) {
	rec := rows(t, `{"k":"b","v":2,"i":0}`, `{"k":"a","v":null,"i":1}`, `{"k":"a","v":1,"i":2}`, `{"k":null,"v":0,"i":3}`,
		`{"k":"a","v":1,"i":4}`, `{"k":"B","v":9,"i":5}`)
	for _, tc := range []struct {
		keys []string
		want []int
	}{
		{[]string{"k", "v"}, []int{5, 2, 4, 1, 0, 3}},
		{[]string{"-k", "v"}, []int{0, 2, 4, 1, 5, 3}},
		{[]string{"-v"}, []int{5, 0, 2, 4, 3, 1}},
	} {
		got, err := SortIndices(rec, tc.keys...)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%v: %s", tc.keys, d)
		}
	}
	floats := NewRecord([]string{"f"}, []arrow.Array{Floats([]float64{math.NaN(), 1, math.Inf(1), 0},
		[]bool{true, true, true, false})})
	got, err := SortIndices(floats, "f")
	if d := cmp.Diff([]int{1, 2, 0, 3}, got); d != "" || err != nil {
		t.Errorf("NaN and null: %s, %v", d, err)
	}
	_, err = Sort(rec, "nope")
	wantErr(t, err, `no column "nope"`)
}

func TestKeysTellRowsApart(t *testing.T) {
	rec := rows(t,
		`{"a":"x","b":"yz"}`, `{"a":"xy","b":"z"}`, `{"a":null,"b":"x"}`, `{"a":"x","b":null}`, `{"a":"","b":"x"}`, `{"a":"x","b":"yz"}`)
	keys := Keys(rec, "a", "b")
	seen := map[string]int{}
	for i, k := range keys {
		if j, dup := seen[k]; dup && (i != 5 || j != 0) {
			t.Errorf("rows %d and %d have the same key", j, i)
		}
		seen[k] = i
	}
	if keys[5] != keys[0] {
		t.Error("equal rows have different keys")
	}
	ints := Keys(rows(t, `{"n":1}`, `{"n":-9223372036854775808}`), "n")
	floats := Keys(NewRecord([]string{"n"},
		[]arrow.Array{Floats([]float64{1, -1 << 63, math.NaN(), -math.NaN(), 1.5}, nil)}), "n")
	if ints[0] != floats[0] || ints[1] != floats[1] || floats[2] != floats[3] || floats[4] == floats[0] {
		t.Errorf("numbers do not compare by value: %q, %q", ints, floats)
	}
}

// difference returns the text of two records if their columns, types or values are different, otherwise "".
// NaN equals NaN.
func difference(a, b arrow.Record) string {
	exact := []array.EqualOption{array.WithNaNsEqual(true), array.WithAbsTolerance(0)}
	if a.Schema().Equal(b.Schema()) && array.RecordApproxEqual(a, b, exact...) {
		return ""
	}
	return fmt.Sprintf("%v -> %v", a, b)
}
