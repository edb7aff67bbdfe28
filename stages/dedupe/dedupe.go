// Package dedupe keeps one row of every key and reports keys whose rows disagree.
package dedupe

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
)

//go:embed *.go
var source embed.FS

// Kind returns the dedupe stage for registration.
func Kind() stage.Kind {
	return stage.Kind{
		Name:    "dedupe",
		Class:   stage.Transform,
		Version: 3, // 2: times compare as times, and a valid row stays over an invalid one
		Code:    stage.CodeOf(source, table.Source, catalog.Source, rules.Source),
		Summary: "keep one row per key and report rows that disagree",
		Outputs: map[string]cty.Type{
			// number of rows that were removed
			"removed": cty.Number,
			// number of keys whose rows disagree
			"conflicts": cty.Number,
		},
		New: func() stage.Stage { return &Config{Keep: KeepLatest, MaxRepeats: 1} },
	}
}

// Values of keep: the row of a key that stays.
const (
	KeepLatest = "latest" // the one measured last, by started_at, else the last row
	KeepFirst  = "first"  // the first row
	KeepRead   = "read"   // the row that readers of the perf table take: the first, of some tables the last
	KeepBest   = "best"   // the lowest latency, the highest rate
	KeepMedian = "median" // the row whose metric is the lower median
)

var keeps = []string{KeepLatest, KeepFirst, KeepRead, KeepBest, KeepMedian}

// tolerance is from which max/min - 1 of the metric on the rows of a key are a conflict.
const tolerance = 0.1

// Config is a dedupe block.
type Config struct {
	// Input is the table.
	Input cty.Value `hcl:"input"`
	// Keep selects one row of each key: "latest" (by started_at, else the last row), "first", "read" (the row that
	// readers of the perf table use), "best" (the lowest latency or the highest rate) or "median" (the lower median).
	Keep string `hcl:"keep,optional"`
	// MaxRepeats is the largest accepted share of rows that repeat the key of a row of the same case, such as those of
	// two runs in one file. If there are more, the stage fails as a gate does (exit code 4). With "best" and "median",
	// rows of another kernel are not repeats.
	MaxRepeats float64 `hcl:"max_repeats,optional"`

	input *stage.Ref
}

// Check validates the config.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)

	var err error
	if c.input, err = stage.RefOf(c.Input); err != nil {
		bad("Wrong input", "%s", err)
	}

	if !slices.Contains(keeps, c.Keep) {
		bad("Unknown keep", "keep is %q; it must be one of %s.", c.Keep, strings.Join(keeps, ", "))
	}

	if !(c.MaxRepeats >= 0 && c.MaxRepeats <= 1) {
		bad("Wrong share", "max_repeats is %v; a share is between 0 and 1.", c.MaxRepeats)
	}

	return diags
}

// Inputs returns the dataset that is deduplicated.
func (c *Config) Inputs() []stage.Input {
	return []stage.Input{{Name: "input", Ref: c.input}}
}

var _ stage.Forecaster = (*Config)(nil)

// Forecast implements stage.Forecaster. Only rows are removed.
func (c *Config) Forecast(at hcl.Range, in stage.Forecasts) (*stage.Forecast, hcl.Diagnostics) {
	f := stage.Through(c.Input, in)
	diags := stage.MissingColumns(f, nil, at)
	if f != nil {
		kept := *f
		f = &kept
	}
	return f, diags
}

// Run keeps one row of every key, in the input's order.
func (c *Config) Run(_ context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	ds := rc.Inputs["input"]
	out := *ds
	if ds.Table == nil {
		return c.outcome(&out, Choice{}), nil
	}

	metric := SchemaOf(ds).Primary()
	o := Options{Key: KeyColumns(ds), Keep: c.Keep, Metric: metric.Name, Better: metric.Better, Tolerance: tolerance}
	if t, ok := PerfTable(ds); ok {
		o.ReadLast, o.ZeroOK = t.Repeats == catalog.TakeLast, t.ZeroLegal
	}

	res, err := Rows(ds.Table, o)
	if err != nil {
		return nil, err
	}

	if res.Removed == 0 {
		return c.outcome(&out, res), nil
	}
	out.Table = table.Take(ds.Table, res.Keep)
	done := c.outcome(&out, res)

	n := c.repeats(ds.Table, o.Key)
	if total := ds.Table.NumRows(); float64(n) > c.MaxRepeats*float64(total) {
		done.Status, done.NoReuse = stage.StatusGateFailed, true
		done.Message = fmt.Sprintf("%d of %d rows repeat the key of an earlier row", n, total)
		done.Checks = append(done.Checks, stage.CheckResult{Name: "repeats", Severity: "fail", Result: "fail",
			Message: done.Message, Value: fmt.Sprintf("%d rows", n), Limit: fmt.Sprintf("at most %g %%", 100*c.MaxRepeats),
			Fix: "find out which of two runs the rows are of, and collect or import one of them"})
	}

	return done, nil
}

// repeats counts the rows that have the key of an earlier row and are no other case. If keep chooses by
// the metric, rows of another kernel are no repeats either.
func (c *Config) repeats(rec arrow.Record, key []string) int {
	other := []string{"case_id"}
	if c.Keep == KeepBest || c.Keep == KeepMedian {
		other = append(other, "kernel_source")
	}

	for _, name := range other {
		if table.Has(rec, name) && !slices.Contains(key, name) {
			key = append(slices.Clone(key), name)
		}
	}

	_, n := table.Number(rec, key...)
	return table.Len(rec) - n
}

func (c *Config) outcome(ds *stage.Dataset, res Choice) *stage.Outcome {
	check := stage.CheckResult{Name: "conflicts", Severity: "warn", Result: "pass", Rows: res.Worst,
		Message: fmt.Sprintf("%d rows removed, no removed row differs from the kept one by more than %g %%", res.Removed,
			100*tolerance)}
	if res.Conflicts > 0 {
		check.Result = "warn"
		check.Message = fmt.Sprintf("%d keys have rows that differ by more than %g %%", res.Conflicts, 100*tolerance)
	}

	out := &stage.Outcome{Status: stage.StatusOK, Data: ds, Checks: []stage.CheckResult{check},
		Values: map[string]cty.Value{
			"removed":   cty.NumberIntVal(int64(res.Removed)),
			"conflicts": cty.NumberIntVal(int64(res.Conflicts)),
		}}
	out.Counts.Rows = table.Len(ds.Table)
	if res.Removed > 0 {
		out.Message = fmt.Sprintf("%d repeated rows removed, keep = %s", res.Removed, c.Keep)
	}
	return out
}

// Options of Rows.
type Options struct {
	Key       []string
	Keep      string
	Metric    string // "" means latency
	Better    catalog.Direction
	Tolerance float64
	ZeroOK    bool // zero is a value of the metric
	ReadLast  bool // KeepRead is the last row, not the first
}

// Choice lists the rows that stay.
type Choice struct {
	Keep      []int // ascending
	Removed   int
	Conflicts int      // keys whose rows differ by more than the tolerance
	Worst     []string // the worst conflicts, at most 20
}

// Rows decides which rows of rec to keep.
func Rows(rec arrow.Record, o Options) (Choice, error) {
	if o.Metric == "" {
		o.Metric = catalog.SchemaOf("").Primary().Name
	}

	for _, k := range o.Key {
		if !table.Has(rec, k) {
			return Choice{}, fmt.Errorf("the key names a column that the data lacks: %w", table.Missing(rec, k))
		}
	}

	groups := table.Groups(table.Number(rec, o.Key...))
	metric, err := metricOf(rec, o)
	if err != nil && len(groups) > 0 {
		return Choice{}, err
	}

	var res Choice
	when, drop := startedAt(rec), make([]bool, rec.NumRows())
	var conflicts []conflict
	for _, rows := range groups {
		keep := choose(rows, o, metric, when)
		for _, r := range rows {
			drop[r] = r != keep
		}

		res.Removed += len(rows) - 1
		if metric == nil {
			continue
		}
		if c := disagree(rows, keep, metric); c.ratio-1 > o.Tolerance {
			conflicts = append(conflicts, c)
		}
	}

	for i, d := range drop {
		if !d {
			res.Keep = append(res.Keep, i)
		}
	}

	res.Conflicts = len(conflicts)
	slices.SortStableFunc(conflicts, func(a, b conflict) int { return cmp.Compare(b.ratio, a.ratio) })

	for _, c := range conflicts[:min(len(conflicts), 20)] {
		res.Worst = append(res.Worst, fmt.Sprintf("%s: kept %s=%s (row %d), other %s (row %d), ratio %.4g",
			table.Describe(rec, c.keep, o.Key), o.Metric, shown(metric, c.keep), c.keep+1, shown(metric, c.other),
			c.other+1, c.ratio))
	}

	return res, nil
}

// shown formats a value for messages.
func shown(metric *table.Col[float64], row int) string {
	v, ok := metric.At(row)
	if !ok {
		return "null"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func metricOf(rec arrow.Record, o Options) (*table.Col[float64], error) {
	needed := o.Keep == KeepBest || o.Keep == KeepMedian
	if !table.Has(rec, o.Metric) && !needed {
		return nil, nil
	}

	col, err := table.Float64s(rec, o.Metric)
	if err != nil {
		return nil, fmt.Errorf("keep = %q compares by %s: %w", o.Keep, o.Metric, err)
	}
	return col, nil
}

// startedAt returns when rows were measured, nil without such a column. Text that is no time is older than
// every time.
func startedAt(rec arrow.Record) []time.Time {
	col, err := table.Strings(rec, "started_at")
	if err != nil {
		return nil
	}

	out := make([]time.Time, len(col.Values))
	for i, text := range col.Values {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999",
			"2006-01-02 15:04:05.999999999", time.DateOnly} {
			if t, err := time.Parse(layout, text); err == nil {
				out[i] = t
				break
			}
		}
	}

	return out
}

// choose returns the row that stays. Ties go to the earlier row, for latest to the later one. A row whose
// metric is no measurement stays only if no row of the key has one.
func choose(rows []int, o Options, metric *table.Col[float64], when []time.Time) int {
	useless := func(r int) bool {
		v, ok := metric.At(r)
		return !ok || rules.Unusable("", v, o.ZeroOK) != ""
	}
	if metric != nil {
		if fit := slices.DeleteFunc(slices.Clone(rows), useless); len(fit) > 0 {
			rows = fit
		}
	}

	switch {
	case o.Keep == KeepRead && o.ReadLast:
		return rows[len(rows)-1]
	case o.Keep == KeepFirst || o.Keep == KeepRead:
		return rows[0]
	case o.Keep == KeepLatest:
		best := rows[0]
		for _, r := range rows[1:] {
			if when == nil || !when[r].Before(when[best]) {
				best = r
			}
		}

		return best
	}

	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(order(metric, a), order(metric, b)) })

	switch {
	case o.Keep == KeepMedian:
		return sorted[(len(sorted)-1)/2]
	case o.Better == catalog.Higher:
		return sorted[len(sorted)-1]
	}

	return sorted[0]
}

// order returns the value of a row for sorting. Nulls and NaN come last.
func order(metric *table.Col[float64], row int) float64 {
	v, ok := metric.At(row)
	if !ok || math.IsNaN(v) {
		return math.Inf(1)
	}
	return v
}

type conflict struct {
	keep, other int
	ratio       float64
}

// disagree compares the kept row with the one farthest from it. The ratio is 1 if all values are equal.
func disagree(rows []int, keep int, metric *table.Col[float64]) conflict {
	base := order(metric, keep)
	worst := conflict{keep: keep, ratio: 1}
	for _, r := range rows {
		v := order(metric, r)
		ratio := 1.0
		switch {
		case v == base:
			continue
		case v <= 0 || base <= 0 || math.IsInf(v, 0) || math.IsInf(base, 0):
			ratio = math.Inf(1)
		default:
			ratio = max(v, base) / min(v, base)
		}

		if ratio > worst.ratio {
			worst.other, worst.ratio = r, ratio
		}
	}

	return worst
}
