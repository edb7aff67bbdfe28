package export

import (
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// TestUnfitRowsAreRefused: what no reader can use was written without a word, also
// by exports without a gate.
func TestUnfitRowsAreRefused(t *testing.T) {
	t.Parallel()
	floats := func(second float64) arrow.Array { return table.Floats([]float64{0.1, second, 0.3}, nil) }
	texts := func(second string) arrow.Array { return table.Texts([]string{"a", second, "c"}, nil) }

	families := func(c *Config) { c.Layout = tree.Families }
	for name, tt := range map[string]struct {
		column string
		cells  arrow.Array
		config func(*Config)
		want   string
	}{
		"NaN": {"latency", floats(math.NaN()), nil,
			"latency is no measurement in some of 3 rows (1 NaN), for example in gemm_dtype=bfloat16 m=2"},
		"infinite":   {"latency", floats(math.Inf(1)), nil, "(1 infinite)"},
		"negative":   {"latency", floats(-5), nil, "(1 negative)"},
		"zero":       {"latency", floats(0), nil, "(1 zero)"},
		"minus zero": {"latency", floats(math.Copysign(0, -1)), nil, "(1 zero)"},
		"null": {"latency", table.Floats([]float64{0.1, 0, 0.3}, []bool{true, false, true}), nil,
			"latency has no value in 1 rows"},
		"null key":        {"m", table.Ints([]int64{1, 2, 3}, []bool{true, false, true}), nil, "m has no value in 1 rows"},
		"size of nothing": {"m", table.Ints([]int64{1, 0, -5}, nil), nil, "m is below 1 in 2 rows, for example 0"},
		"formula": {"kernel_source", texts("=1+1"), nil,
			"the column kernel_source begins like a formula of a spreadsheet"},
		"escape": {"kernel_source", texts("\x1b[2J"), nil,
			"the column kernel_source contains the control character U+001B (gemm_dtype=bfloat16 m=2 n=64 k=32)"},
		"NUL in Parquet": {"kernel_source", texts("a\x00b"), func(c *Config) { c.Format = Parquet },
			"the control character U+0000"},
		"two versions": {"version", texts("c"), families, "the rows are of several versions (a, c)"},
		"two devices": {"device", texts("c"), func(c *Config) { families(c); c.Version = "1" },
			"the rows are of several devices (a, c)"},
		"power without end": {"power", floats(math.Inf(1)), func(c *Config) { c.Power = PowerNeed }, "2 of 3 rows have it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ds := gemm(order(3))
			ds.Table = table.WithColumn(ds.Table, "power_limit", table.Constant(700.0, 3))
			ds.Table = table.WithColumn(ds.Table, tt.column, tt.cells)
			_, err := run(t, config(tt.config), dir, ds)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}

			if got := everything(t, dir); len(got) != 0 {
				t.Errorf("files %v", got)
			}
		})
	}
}

// TestPowerIsLeftOutIfARowLacksIt checks that the power columns are left out if a row has no valid power, with
// a warning if another row has one.
func TestPowerIsLeftOutIfARowLacksIt(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		power []float64
		valid []bool
		want  string // "" for no warning
	}{
		"NaN in a row":  {power: []float64{1, math.NaN()}, want: "1 of 2 rows have a power and a limit above zero"},
		"null in a row": {power: []float64{1, 0}, valid: []bool{true, false}, want: "1 of 2 rows"},
		"negative":      {power: []float64{-500, -500}, want: "0 of 2 rows"},
		"zero":          {power: []float64{0, 500}, want: "1 of 2 rows"},
		"infinite":      {power: []float64{math.Inf(1), 500}, want: "1 of 2 rows"},
		"none at all":   {power: []float64{0, 0}, valid: []bool{false, false}},
	} {
		dir := t.TempDir()
		ds := gemm(order(2))
		ds.Table = table.WithColumn(table.WithColumn(ds.Table, "power_limit", table.Constant(700.0, 2)), "power",
			table.Floats(c.power, c.valid))
		out := mustRun(t, config(nil), dir, ds)

		if got := read(t, dir, "gemm_perf.txt"); strings.Contains(got, "power") {
			t.Errorf("%s: the file:\n%s", name, got)
		}

		told := ""
		for _, check := range out.Checks {
			if check.Name == "power" && check.Result == "warn" {
				told = check.Message
			}
		}

		if (c.want == "") != (told == "") || !strings.Contains(told, c.want) {
			t.Errorf("%s: told %q, want %q", name, told, c.want)
		}
	}
}

// TestDoubtfulRowsAreTold: what a reader should know, and readers can read.
func TestDoubtfulRowsAreTold(t *testing.T) {
	t.Parallel()
	messages := func(out *stage.Outcome) string {
		var s []string
		for _, c := range out.Checks {
			s = append(s, c.Result+" "+c.Name+": "+c.Message)
		}
		return strings.Join(s, "\n")
	}

	ds := gemm(order(3))
	ds.Table = table.Take(ds.Table, []int{0, 1, 1, 2})
	out := mustRun(t, config(nil), t.TempDir(), ds)
	if got := messages(out); !strings.HasPrefix(got,
		"warn duplicates: 1 of 4 rows repeat the key of a row before them, for example gemm_dtype=bfloat16 m=2") {
		t.Error(got)
	}

	ds = gemm(order(2))
	ds.Table = table.WithColumn(ds.Table, "device", table.Constant("NVIDIA B200", 2))
	out = mustRun(t, config(func(c *Config) { c.Layout = tree.Families }), t.TempDir(), ds)
	if got := messages(out); !strings.HasPrefix(got,
		`warn device: the rows were measured on "NVIDIA B200", and the folder is of h200_sxm`) {
		t.Error(got)
	}

	for name, tt := range map[string]struct {
		column string
		cells  arrow.Array
		want   string
	}{
		"versions": {"version", table.Texts([]string{"1.2.0", "1.3.0"}, nil),
			"warn version: the rows are of several versions (1.2.0, 1.3.0)"},
		"devices": {"device", table.Texts([]string{"NVIDIA H100", "NVIDIA H200"}, nil),
			"warn device: the rows are of several devices (NVIDIA H100, NVIDIA H200)"},
		"spaces": {"kernel_source", table.Texts([]string{"a", "a "}, nil),
			`warn spaces: the column kernel_source has spaces around "a "`},
		"words": {"gemm_dtype", table.Texts([]string{"fp8", "fp99"}, nil),
			`warn words: aiconfigurator does not know the gemm_dtype "fp99"`},
	} {
		ds := gemm(order(2))
		ds.Table = table.WithColumn(ds.Table, tt.column, tt.cells)
		if got := messages(mustRun(t, config(nil), t.TempDir(), ds)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}

	for _, text := range []string{"007", "1_0", "1.10", " 5", "nan", "1e400"} {
		ds := gemm(order(2))
		ds.Table = table.WithColumn(ds.Table, "tag", table.Texts([]string{"a", text}, nil))
		ds.Info.Perf, ds.Info.Op, ds.Info.Params = "", "mine", []string{"m", "tag"}
		tagged := func(format string) string {
			return messages(mustRun(t, config(func(c *Config) { c.File, c.Format = "mine."+format, format }),
				t.TempDir(), ds))
		}
		if got := tagged(CSV); !strings.Contains(got, "warn numbers: the column tag is text and has") {
			t.Errorf("%q: %q", text, got)
		}

		if got := tagged(Parquet); strings.Contains(got, "numbers") {
			t.Errorf("%q in Parquet: %q", text, got)
		}
	}

	if out := mustRun(t, config(nil), t.TempDir(), gemm(order(2))); len(out.Checks) != 0 {
		t.Error(messages(out))
	}
}
