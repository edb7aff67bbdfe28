package stages_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
)

// keepWords are the values of keep.
var keepWords = []string{dedupe.KeepLatest, dedupe.KeepFirst, dedupe.KeepRead, dedupe.KeepBest, dedupe.KeepMedian}

func refValue(address string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: address, Kind: "collect"})})
}

func config(keep string) *dedupe.Config {
	c := dedupe.Kind().New().(*dedupe.Config)
	c.Input, c.Keep = refValue("collect.gemm"), keep
	return c
}

func sample() *stage.Dataset {
	rec := table.NewRecord([]string{"m", "dtype", "latency", "started_at"}, []arrow.Array{
		table.Ints([]int64{1, 2, 1, 1, 3}, nil),
		table.Texts([]string{"fp8", "fp8", "fp8", "fp8", "bf16"}, nil),
		table.Floats([]float64{10, 5, 30, 20, 7}, nil),
		table.Texts([]string{"2026-01-01T00:00:03Z", "", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", ""}, nil),
	})
	return &stage.Dataset{Table: rec, Info: stage.Info{Params: []string{"m", "dtype"}}}
}

func TestDedupeKeepsOneRow(t *testing.T) {
	for keep, want := range map[string]float64{dedupe.KeepFirst: 10, dedupe.KeepLatest: 10, dedupe.KeepBest: 10,
		dedupe.KeepMedian: 20} {
		t.Run(keep, func(t *testing.T) {
			c := config(keep)
			if d := c.Check(&stage.CheckContext{}); d.HasErrors() {
				t.Fatal(d)
			}

			in := sample()
			out, err := c.Run(t.Context(), &stage.RunContext{Inputs: map[string]*stage.Dataset{"input": in}})
			if err != nil {
				t.Fatal(err)
			}

			if got := out.Data.Table.NumRows(); got != 3 {
				t.Fatalf("%d rows, want 3", got)
			}

			lat, _ := table.Float64s(out.Data.Table, "latency")
			if !slices.Contains(lat.Values, want) {
				t.Errorf("latencies %v, want the row with %g kept", lat.Values, want)
			}

			if in.Table.NumRows() != 5 {
				t.Error("the input was changed")
			}

			check := out.Checks[0]
			if check.Result != "warn" || len(check.Rows) != 1 || !strings.Contains(check.Rows[0], "m=1 dtype=fp8") {
				t.Errorf("conflict of 10 to 30 not reported: %+v", check)
			}

			if v := out.Values["removed"]; !v.RawEquals(cty.NumberIntVal(2)) {
				t.Errorf("removed = %#v", v)
			}
		})
	}
}

// Rows of two perf tables with one key are both kept.
func TestRowsOfTwoTablesAreNoDuplicates(t *testing.T) {
	rec := table.NewRecord([]string{"m", "k", "quant_dtype", "latency", "perf_table"}, []arrow.Array{
		table.Ints([]int64{1, 1, 1}, nil), table.Ints([]int64{32, 32, 32}, nil), table.Constant("fp8", 3),
		table.Floats([]float64{1, 2, 3}, nil), table.Texts([]string{"", "scale_matrix_perf", ""}, nil),
	})

	ds := &stage.Dataset{Table: rec, Info: stage.Info{Perf: "computescale_perf", Params: []string{"m", "k"}}}
	key := dedupe.KeyColumns(ds)
	if !slices.Equal(key, []string{"perf_table", "m", "k", "quant_dtype"}) {
		t.Fatalf("key %v", key)
	}

	res, err := dedupe.Rows(rec, dedupe.Options{Key: key, Keep: dedupe.KeepFirst, Metric: "latency"})
	if err != nil || !slices.Equal(res.Keep, []int{0, 1}) {
		t.Errorf("keeps rows %v, %v", res.Keep, err)
	}
}

func TestLatestWithoutTimes(t *testing.T) {
	ds := sample()
	rec := ds.Table
	rec = table.NewRecord([]string{"m", "latency"}, []arrow.Array{rec.Column(0), rec.Column(2)})
	res, err := dedupe.Rows(rec, dedupe.Options{Key: []string{"m"}, Keep: dedupe.KeepLatest})
	if err != nil {
		t.Fatal(err)
	}

	if want := []int{1, 3, 4}; !slices.Equal(res.Keep, want) {
		t.Errorf("kept rows %v, want %v", res.Keep, want)
	}
}

func TestNullsAndZerosAreConflictsNotPanics(t *testing.T) {
	rec := table.NewRecord([]string{"m", "latency"}, []arrow.Array{
		table.Ints([]int64{1, 1, 2, 2, 3, 3}, nil),
		table.Floats([]float64{1, 0, 0, 4, math.NaN(), 5}, []bool{true, false, true, true, true, true}),
	})
	for _, keep := range keepWords {
		res, err := dedupe.Rows(rec, dedupe.Options{Key: []string{"m"}, Keep: keep, Tolerance: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		if res.Conflicts != 3 || len(res.Keep) != 3 {
			t.Errorf("keep %s: %d conflicts, rows %v; want 3 and 3 rows", keep, res.Conflicts, res.Keep)
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	c := config("newest")
	c.Input = cty.StringVal("gemm")
	diags := c.Check(&stage.CheckContext{Range: hcl.Range{Filename: "p.hcl"}})
	if len(diags) != 2 {
		t.Fatalf("%d problems, want 2: %v", len(diags), diags)
	}

	for _, d := range diags {
		if d.Subject == nil {
			t.Errorf("%s has no place", d.Summary)
		}
	}
}

// TestTimesCompareAsTimes: as text "Z" sorts after "." and time zones are ignored.
func TestTimesCompareAsTimes(t *testing.T) {
	t.Parallel()

	for _, tt := range []struct{ earlier, later string }{
		{"2026-01-01T10:00:00Z", "2026-01-01T10:00:00.5Z"},
		{"2026-01-01T11:30:00+02:00", "2026-01-01T10:00:00Z"},
		{"2026-01-01T10:00:58.049101820Z", "2026-01-01T10:00:58.049101825Z"},
		{"2026-01-01T10:00:58.04910182Z", "2026-01-01T10:00:58.049101825Z"},
		{"", "2026-01-01T10:00:00Z"},
		{"yesterday", "2026-01-01T10:00:00Z"},
		{"2026-01-01 10:00:00", "2026-01-01T10:00:01Z"},
	} {
		for at, times := range [][]string{{tt.earlier, tt.later}, {tt.later, tt.earlier}} {
			rec := table.NewRecord([]string{"m", "latency", "started_at"}, []arrow.Array{
				table.Ints([]int64{1, 1}, nil), table.Floats([]float64{1, 2}, nil), table.Texts(times, nil)})
			res, err := dedupe.Rows(rec, dedupe.Options{Key: []string{"m"}, Keep: dedupe.KeepLatest})
			if err != nil || !slices.Equal(res.Keep, []int{1 - at}) {
				t.Errorf("of %q keeps row %v, %v; want the one of %s", times, res.Keep, err, tt.later)
			}
		}
	}
}

// TestAnInvalidRowNeverStaysOverAValidOne in whatever order and mode.
func TestAnInvalidRowNeverStaysOverAValidOne(t *testing.T) {
	t.Parallel()

	for _, bad := range []struct {
		v     float64
		valid bool
	}{{math.NaN(), true}, {math.Inf(1), true}, {-5, true}, {0, true}, {0, false}} {
		for _, keep := range keepWords {
			for _, at := range []int{0, 1, 2} {
				vals, valid := []float64{7, 8, 9}, []bool{true, true, true}
				vals[at], valid[at] = bad.v, bad.valid
				rec := table.NewRecord([]string{"m", "latency", "started_at"}, []arrow.Array{
					table.Constant(int64(1), 3), table.Floats(vals, valid),
					table.Texts([]string{"2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z"}, nil)})

				res, err := dedupe.Rows(rec, dedupe.Options{Key: []string{"m"}, Keep: keep})
				if err != nil || len(res.Keep) != 1 || res.Keep[0] == at {
					t.Errorf("keep = %s with %v (null: %v) in row %d keeps %v, %v", keep, bad.v, !bad.valid, at, res.Keep, err)
				}

				if len(res.Worst) > 0 && !bad.valid && !strings.Contains(res.Worst[0], "null") {
					t.Errorf("a null is printed as %q", res.Worst)
				}
			}
		}
	}

	// Where zero is data it is a value like any other.
	rec := table.NewRecord([]string{"m", "latency"},
		[]arrow.Array{table.Constant(int64(1), 2), table.Floats([]float64{5, 0}, nil)})
	if res, err := dedupe.Rows(rec, dedupe.Options{Key: []string{"m"}, Keep: dedupe.KeepLatest,
		ZeroOK: true}); err != nil ||
		!slices.Equal(res.Keep, []int{1}) {
		t.Errorf("keeps %v, %v", res.Keep, err)
	}
}

func TestUnknownKeyColumn(t *testing.T) {
	_, err := dedupe.Rows(sample().Table, dedupe.Options{Key: []string{"mm"}, Keep: dedupe.KeepFirst})
	if err == nil || !strings.Contains(err.Error(), `"mm"`) {
		t.Errorf("error %v does not name the column", err)
	}
}

// Every key has exactly one row afterwards, rows keep their order, and what
// best keeps is never above what any other choice keeps.
func TestRowsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "n")
		keys := make([]int64, n)

		lat := make([]float64, n)
		for i := range n {
			keys[i] = int64(rapid.IntRange(0, 12).Draw(rt, "k"))
			lat[i] = float64(rapid.IntRange(1, 9).Draw(rt, "l"))
		}

		rec := table.NewRecord([]string{"k", "latency"}, []arrow.Array{table.Ints(keys, nil), table.Floats(lat, nil)})
		distinct := map[int64]float64{}
		for i, k := range keys {
			if v, ok := distinct[k]; !ok || lat[i] < v {
				distinct[k] = lat[i]
			}
		}

		for _, keep := range keepWords {
			res, err := dedupe.Rows(rec, dedupe.Options{Key: []string{"k"}, Keep: keep})
			if err != nil {
				rt.Fatal(err)
			}

			seen := map[int64]bool{}
			for _, r := range res.Keep {
				if seen[keys[r]] {
					rt.Fatalf("%s keeps key %d twice", keep, keys[r])
				}
				seen[keys[r]] = true
				if keep == dedupe.KeepBest && lat[r] != distinct[keys[r]] {
					rt.Fatalf("best kept %g of key %d, lowest is %g", lat[r], keys[r], distinct[keys[r]])
				}
			}

			if len(seen) != len(distinct) || !slices.IsSorted(res.Keep) || res.Removed != n-len(distinct) {
				rt.Fatalf("%s: kept %v, removed %d of %d rows with %d keys", keep, res.Keep, res.Removed, n, len(distinct))
			}
		}
	})
}
