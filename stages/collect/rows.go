package collect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// ours lists the columns that the stage fills in. Values from workers are ignored.
var ours = []string{"case_id", "status", "framework", "version", "device", "attempts", "worker", "device_uuid",
	"started_at", stage.AttachmentsColumn}

// answer is the result of checking the rows of a task.
type answer struct {
	rows    map[int][]worker.Row // by unit
	missing []int                // units without a row
	dropped int                  // rows of points that were not requested
	// repeated counts rows that are equal to another row of the same unit.
	repeated int
	last     int // unit of the last row
	// faults maps units with an invalid row to the failure. They have no rows.
	faults map[int]*worker.Failure
}

// judge checks the rows that a worker returned for the units of one task. A failure means that none of
// them can be used. If only one point of a sweep has an invalid value, only that point fails.
func (j *job) judge(units []int, rows []worker.Row) (answer, *worker.Failure) {
	a := answer{rows: map[int][]worker.Row{}}
	if len(rows) == 0 {
		return a, bug("the op returned no rows")
	}

	task := int(j.units[units[0]].task)
	params := j.paramsOf(task)
	sweep := j.cases.SweepColumns()
	points := j.points(units)
	if most := mostRows + 100*len(units); len(rows) > most {
		return a, bug("the op returned %d rows for %d cases; %d are the most", len(rows), len(units), most)
	}

	for i, row := range rows {
		if f := j.newColumns(row, i); f != nil {
			return a, f
		}

		wrong := j.schema.checkRow(row, i, params, sweep)
		if wrong != nil && (len(points) < 2 || contradicts(row, params, sweep)) {
			return a, wrong
		}

		if f := unmet(row, i, params, j.demands); f != nil && wrong == nil {
			return a, f
		}

		unit, f := pick(units, points, sweep, row, i)
		if f != nil {
			return a, cmp.Or(wrong, f)
		}

		if a.last = unit; unit < 0 {
			a.dropped++
			continue
		}

		switch {
		case wrong != nil:
			a.fault(unit, wrong)
		default:
			a.rows[unit] = append(a.rows[unit], plainRow(row, params, sweep))
		}
	}

	for u := range a.faults {
		delete(a.rows, u) // an incomplete point is not a measurement
	}

	if len(a.rows) == 0 && len(a.faults) > 0 {
		return a, a.faults[slices.Min(slices.Collect(maps.Keys(a.faults)))]
	}

	for _, u := range units {
		if len(a.rows[u]) == 0 {
			a.missing = append(a.missing, u)
		}
		a.repeated += repeats(a.rows[u])
	}

	if len(a.missing) == len(units) && len(sweep) > 0 {
		return a, bug("none of the %d rows belongs to a point of the sweep", len(rows))
	}

	return a, nil
}

// fault records the failure of a unit. The first one is kept.
func (a *answer) fault(unit int, f *worker.Failure) {
	if a.faults == nil {
		a.faults = map[int]*worker.Failure{}
	}
	a.faults[unit] = cmp.Or(a.faults[unit], f)
}

// repeats counts the rows that are equal to an earlier one, including the metrics.
func repeats(rows []worker.Row) int {
	if len(rows) < 2 {
		return 0
	}
	seen := map[string]bool{}
	for _, row := range rows {
		if text, err := json.Marshal(row); err == nil { // Marshal sorts the names
			seen[string(text)] = true
		}
	}
	return len(rows) - len(seen)
}

// params returns the parameter of a case by name, with JSON types. A nil function has no parameters.
type params func(name string) (any, bool)

func (p params) of(name string) (any, bool) {
	if p == nil {
		return nil, false
	}
	return p(name)
}

// Limits of a task's rows. A table has the columns of all its rows, so a worker with generated column
// names could exhaust the memory.
const (
	mostRows    = 10_000
	mostColumns = 500
)

// newColumns adds the row's columns to those of the job. It returns a failure if there are too many.
func (j *job) newColumns(row worker.Row, i int) *worker.Failure {
	more := 0
	for name := range row {
		if !j.columns[name] {
			more++
		}
	}

	if more == 0 {
		return nil
	}

	if len(j.columns)+more > mostColumns {
		return bug("row %d has %d columns that no row before it has, and the table would have %d; %d are the most",
			i, more, len(j.columns)+more, mostColumns)
	}

	if j.columns == nil {
		j.columns = map[string]bool{}
	}

	for name := range row {
		j.columns[name] = true
	}

	return nil
}

// paramsOf returns the parameters of a task.
func (j *job) paramsOf(task int) params {
	columns := j.cases.Columns()
	return func(name string) (any, bool) {
		for col, c := range columns {
			if c == name {
				return j.cases.Plain(task, col), true
			}
		}
		return nil, false
	}
}

// points returns the sweep points of units of one task, or nil without a sweep.
func (j *job) points(units []int) []map[string]any {
	s := j.sweepOf(int(j.units[units[0]].task))
	if s == nil {
		return nil
	}
	var out []map[string]any
	for _, u := range units {
		out = append(out, s.values[j.units[u].point])
	}
	return out
}

// pick returns the unit that a row belongs to, or -1 if it was not requested.
func pick(units []int, points []map[string]any, sweep []string, row worker.Row, i int) (int, *worker.Failure) {
	if len(sweep) == 0 {
		return units[0], nil
	}

	for _, name := range sweep {
		if _, ok := row[name]; !ok {
			return -1, bug("row %d does not say which %s it is for; a case that sweeps names the point in every row", i, name)
		}
	}

	for at, p := range points {
		if !slices.ContainsFunc(sweep, func(name string) bool { return !same(row[name], p[name]) }) {
			return units[at], nil
		}
	}

	return -1, nil
}

// checkRow returns the first error in a row, or nil.
func (s *schema) checkRow(row worker.Row, i int, params params, sweep []string) *worker.Failure {
	for name, v := range row {
		if misfit(name, v, i, params, sweep) == nil {
			continue
		}
		// Report the first error by column name, so that the message is deterministic.
		for _, name := range slices.Sorted(maps.Keys(row)) {
			if f := misfit(name, row[name], i, params, sweep); f != nil {
				return f
			}
		}
	}

	for _, f := range s.fields {
		v := row[f.name]
		text, isText := v.(string)
		switch {
		case v == nil && f.needed:
			return bug("row %d has no %s", i, f.name)

		case v == nil:
		case f.needed && isText && nonFinite(text):
			exception := "NonFiniteMetric"
			if f.name == "latency" {
				exception = "NonFiniteLatency" // rules in plans match this name
			}
			return &worker.Failure{Class: worker.ClassFrameworkBug, Exception: exception,
				Message: fmt.Sprintf("row %d: non-finite %s (%s)", i, f.name, text)}

		case isText && nonFinite(text) && f.kind == number: // unknown, stored as null
		case !f.kind.holds(v):
			return bug("row %d: %s is %#v", i, f.name, v)

		case f.needed:
			if x, _ := v.(json.Number).Float64(); x < 0 {
				return bug("row %d: the %s is negative (%v)", i, f.name, v)
			}
		}
	}

	return nil
}

// maxText is the maximum size of a text cell in bytes.
const maxText = 4096

// unfitText returns why text from a worker cannot be stored, or "".
func unfitText(s string) string {
	if len(s) > maxText {
		return fmt.Sprintf("holds a text of %d bytes; %d are the most", len(s), maxText)
	}
	return textutil.Unfit(s)
}

// unfitNumber returns why a number from a worker cannot be stored, or "".
func unfitNumber(n json.Number) string {
	const most = 64 // longest digit string of any float or integer
	if len(n) > most {
		return fmt.Sprintf("holds a number of %d digits", len(n))
	}

	whole := !strings.ContainsAny(string(n), ".eE")
	if whole { // ParseInt would allocate an error for every float
		if _, err := n.Int64(); err == nil {
			return ""
		}
	}

	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return fmt.Sprintf("holds %s, which no float has", n)
	}

	if whole {
		return fmt.Sprintf("holds the integer %s, which is too large for 64 bits; return it as a float or as text", n)
	}

	return ""
}

// misfit returns the error in one value of a row, or nil.
func misfit(name string, v any, i int, params params, sweep []string) *worker.Failure {
	switch v := v.(type) {
	case nil, bool:
	case json.Number:
		if why := unfitNumber(v); why != "" {
			return bug("row %d: column %s %s", i, name, why)
		}

	case string:
		if why := unfitText(v); why != "" {
			return bug("row %d: column %s %s", i, name, why)
		}

	default:
		return bug("row %d: column %s is no single value", i, name)
	}

	if want, ok := params.of(name); ok && !slices.Contains(sweep, name) && !same(v, want) {
		return bug("row %d says %s = %v and the case has %v", i, name, v, want)
	}

	return nil
}

// contradicts reports whether a row has parameters of another case. The task's rows cannot be used then.
func contradicts(row worker.Row, params params, sweep []string) bool {
	for name, v := range row {
		if want, ok := params.of(name); ok && !slices.Contains(sweep, name) && !same(v, want) {
			return true
		}
	}
	return false
}

func nonFinite(s string) bool { return s == "NaN" || s == "Infinity" || s == "-Infinity" }

func bug(format string, args ...any) *worker.Failure {
	return &worker.Failure{Class: worker.ClassCollectorBug, Exception: "BadRow", Message: fmt.Sprintf(format, args...)}
}

// plainRow returns the part of a row that is stored: metrics and the worker's extra columns, without
// parameters and environment columns.
func plainRow(row worker.Row, params params, sweep []string) worker.Row {
	plain := true
	for name, v := range row {
		s, text := v.(string)
		_, param := params.of(name)
		if v == nil || param || text && nonFinite(s) || slices.Contains(sweep, name) || slices.Contains(ours, name) {
			plain = false
			break
		}
	}

	if plain {
		return row
	}

	out := make(worker.Row, len(row))
	for name, v := range row {
		if s, ok := v.(string); ok && nonFinite(s) {
			v = nil
		}
		if _, param := params.of(name); v == nil || param || slices.Contains(sweep, name) || slices.Contains(ours, name) {
			continue
		}
		out[name] = v
	}

	return out
}

// same compares a row's value with a parameter: numbers by value, everything else as text.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}

	na, okA := a.(json.Number)
	nb, okB := b.(json.Number)
	if okA && okB {
		if na == nb {
			return true
		}
		fa, errA := strconv.ParseFloat(string(na), 64)
		fb, errB := strconv.ParseFloat(string(nb), 64)
		return errA == nil && errB == nil && fa == fb
	}

	return fmt.Sprint(a) == fmt.Sprint(b)
}

func decodeObject(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	return m, nil
}
