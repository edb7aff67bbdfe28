package collect

import (
	"cmp"
	"encoding/json"
	"slices"

	"aicplan/cudaops/worker"
	"aicplan/engine/grid"
	"aicplan/stages/collect/rows"
)

// answer is the result of checking the rows of a task.
type answer struct {
	rows    map[int][]worker.Row // by unit
	dropped int                  // rows of points that were not requested
	// repeated counts rows that are equal to another row of the same unit.
	repeated int
	last     int // unit of the last row
	// faults maps units with an invalid row to the failure. They have no rows.
	faults map[int]*worker.Failure
}

// judge checks the rows that a worker returned for the units of one task. A failure means that none of
// them can be used. If only one point of a sweep has an invalid value, only that point fails.
func (j *job) judge(units []int, answered []worker.Row) (answer, *worker.Failure) {
	a := answer{rows: map[int][]worker.Row{}}
	task := int(j.units[units[0]].task)
	check := &rows.Check{Schema: j.schema, Table: j.table, Param: paramsOf(j.cases, task),
		Sweep: j.cases.SweepColumns(), Demands: j.demands}
	sweep := check.Sweep
	points := j.points(units)
	if most := mostRows + 100*len(units); len(answered) > most {
		return a, rows.Bug("the op returned %d rows for %d cases; %d are the most", len(answered), len(units), most)
	}

	for i, row := range answered {
		if f := j.newColumns(row, i); f != nil {
			return a, f
		}

		wrong := check.Row(row, i)
		if wrong != nil && (len(points) < 2 || check.Contradicts(row)) {
			return a, wrong
		}

		if f := check.Unmet(row, i); f != nil && wrong == nil {
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

		if wrong != nil {
			if a.faults == nil {
				a.faults = map[int]*worker.Failure{}
			}
			a.faults[unit] = cmp.Or(a.faults[unit], wrong)
			continue
		}
		check.Reduce(row)
		a.rows[unit] = append(a.rows[unit], row)
	}

	for u := range a.faults {
		delete(a.rows, u) // an incomplete point is not a measurement
	}

	for _, all := range a.rows {
		a.repeated += repeats(all)
	}

	if len(a.rows)+len(a.faults) == 0 {
		return a, rows.Bug("the op returned %d rows, none of which belongs to the case", len(answered))
	}

	return a, nil
}

// repeats counts the rows that are equal to an earlier one, including the metrics.
func repeats(all []worker.Row) int {
	if len(all) < 2 {
		return 0
	}
	seen := map[string]bool{}
	for _, row := range all {
		if text, err := json.Marshal(row); err == nil { // Marshal sorts the names
			seen[string(text)] = true
		}
	}
	return len(all) - len(seen)
}

// Limits of a task's rows. A table has the columns of all its rows, so a worker with generated column
// names could exhaust the memory.
const (
	mostRows    = 10_000
	mostColumns = 500
)

// newColumns adds the row's columns to those of the job. It returns a failure if there are too many.
func (j *job) newColumns(row worker.Row, i int) *worker.Failure {
	var added []string
	for name := range row {
		if !j.columns[name] {
			added = append(added, name)
		}
	}

	if n := len(j.columns) + len(added); n > mostColumns {
		return rows.Bug("row %d has %d columns that no row before it has, and the table would have %d; %d are the most",
			i, len(added), n, mostColumns)
	}
	for _, name := range added {
		j.columns[name] = true
	}
	return nil
}

// paramsOf returns a function that returns a parameter of a case.
func paramsOf(cases *grid.Cases, no int) func(name string) (any, bool) {
	columns := cases.Columns()
	return func(name string) (any, bool) {
		if col := slices.Index(columns, name); col >= 0 {
			return cases.Plain(no, col), true
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
			return -1, rows.Bug("row %d does not name its %s; a case that sweeps names the point in every row", i, name)
		}
	}

	for at, p := range points {
		if !slices.ContainsFunc(sweep, func(name string) bool { return !rows.Same(row[name], p[name]) }) {
			return units[at], nil
		}
	}

	return -1, nil
}
