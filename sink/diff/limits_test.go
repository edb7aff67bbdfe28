package diff

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// A limit that nothing can exceed is no guard.
func TestLimitsThatCannotHold(t *testing.T) {
	t.Parallel()
	f := func(v float64) *float64 { return &v }
	n := func(v int) *int { return &v }
	for want, l := range map[string]Limits{
		"--max-median is NaN":  {Median: f(math.NaN())},
		"--max-p95 is +Inf":    {P95: f(math.Inf(1))},
		"--max-changed is -1":  {Changed: n(-1)},
		"--max-removed is -10": {Removed: n(-10)},
	} {
		if err := l.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := (Limits{Median: f(0), P95: f(1.2), Changed: n(0)}).Check(); err != nil {
		t.Error(err)
	}
}

// Only the first row of a repeated key is compared, so limits pass only if both sides have the same repeats.
func TestRowsThatRepeatAKey(t *testing.T) {
	t.Parallel()
	zero := 0
	guard := Limits{Changed: &zero}
	for name, c := range map[string]struct {
		a, b  []float64 // of m = 1, 1, 2
		count int
	}{
		"the same":              {[]float64{1, 9, 2}, []float64{1, 9, 2}, 0},
		"another second value":  {[]float64{1, 9, 2}, []float64{1, 8, 2}, 2},
		"another order":         {[]float64{1, 9, 2}, []float64{9, 1, 2}, 0},
		"the same without one":  {[]float64{1, 1, 2}, []float64{1, math.NaN(), 2}, 2},
		"the same, both absent": {[]float64{1, math.NaN(), 2}, []float64{1, math.NaN(), 2}, 0},
	} {
		r, err := Tables(gemm([]int64{1, 1, 2}, c.a, "x"), gemm([]int64{1, 1, 2}, c.b, "x"), "A", "B",
			Options{Table: "gemm_perf", Tolerance: 20})
		if err != nil {
			t.Fatal(err)
		}
		if r.Uncompared != c.count {
			t.Errorf("%s: %d rows are not compared, want %d", name, r.Uncompared, c.count)
		}
		beyond := (&Report{Tables: []*Comparison{r}}).Exceeded(guard)
		if want := c.count > 0; (len(beyond) > 0) != want || want &&
			!strings.Contains(beyond[0], "rows repeat a key with other values") {
			t.Errorf("%s: %v", name, beyond)
		}
	}
	if r, err := Tables(gemm([]int64{1, 1}, []float64{1, 2}, "x"), gemm([]int64{1}, []float64{1}, "x"), "A", "B",
		Options{Table: "gemm_perf"}); err != nil || r.Uncompared != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestTheComparedColumnIsNoKey(t *testing.T) {
	t.Parallel()
	a := gemm([]int64{1}, []float64{1}, "x")
	if _, err := Tables(a, a, "A", "B", Options{Key: []string{"m", "latency"}}); err == nil ||
		!strings.Contains(err.Error(), "the key has the column latency, which is what is compared") {
		t.Error(err)
	}
}

// TestSidesThatDoNotSayTheirDevice: a null is no device called "".
func TestSidesThatDoNotSayTheirDevice(t *testing.T) {
	t.Parallel()
	rec := table.NewRecord([]string{"m", "device", "latency"}, []arrow.Array{
		table.Ints([]int64{1, 2}, nil), table.Texts([]string{"", "H200"}, []bool{false, true}), table.Constant(1.0, 2)})
	r, err := Tables(rec, rec, "A", "B", Options{Key: []string{"m"}})
	if err != nil || !slices.Equal(r.A.Device, []string{"H200"}) {
		t.Errorf("devices %q, %v", r.A.Device, err)
	}
}
