package importer

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/collect"
	"aicplan/stages/runtimes"
)

// SeedReport is the result of a seeding.
type SeedReport struct {
	Planned int `json:"planned"` // units of the collect stage
	Seeded  int `json:"seeded"`  // units that were put into the journal
	Already int `json:"already"` // measured there before; they stay
	Missing int `json:"missing"` // without a usable row in the table
	// Unused counts rows of the table that answer no planned case.
	Unused int `json:"unused"`
	// Bad are rows whose latency cannot be a measurement.
	Bad []string `json:"bad,omitempty"`
	// Repeated are rows with another value than the row of the same case that was taken.
	Repeated []string `json:"repeated,omitempty"`
	// Journal names the context that was written to.
	Journal   string `json:"journal"`
	Framework string `json:"framework"`
	Version   string `json:"version"`
	Device    string `json:"device"`
	// Columns are those by which rows were matched with cases.
	Columns []string `json:"columns"`
}

// Text is the report as one line.
func (r SeedReport) Text() string {
	return fmt.Sprintf(
		"%d of %d cases seeded from %s %s on %s, %d were there already, %d have no row; %s without a case",
		r.Seeded,
		r.Planned,
		r.Framework,
		r.Version,
		r.Device,
		r.Already,
		r.Missing,
		textutil.Counted(r.Unused, "row"),
	)
}

// Seed adds the rows of an imported table to the case cache of a collect stage, so that the stage measures only
// missing cases. Rows are matched by the grid's columns. Framework, version and device of the table select the
// journal, so rows of another version are never used for the current one. The column imported_from of a seeded
// row contains the file. Units that were measured already are unchanged. A dry run counts and writes nothing.
func Seed(store *checkpoint.Store, m *collect.Measurement, set *Set, dryRun bool) (SeedReport, error) {
	if set.Data.Table.NumRows() == 0 {
		return SeedReport{}, errors.New("there are no rows")
	}

	env := &runtimes.Environment{Framework: set.Data.Info.Framework, Version: set.Data.Info.Version,
		Device: set.Data.Info.Device}
	rep := SeedReport{Framework: env.Framework, Version: env.Version, Device: env.Device}
	for _, f := range [][2]string{{"framework", env.Framework}, {"version", env.Version}, {"device", env.Device}} {
		if f[1] == "" {
			return rep, fmt.Errorf(
				"the rows do not agree on one %s, so they belong to no journal; import the rows of one at a time, or state it",
				f[0],
			)
		}
	}

	if want := m.Runtime.Framework; want != "" && !strings.EqualFold(want, env.Framework) {
		return rep, fmt.Errorf("the rows were measured with %s, and %s is %s: they match none of its cases",
			env.Framework, m.Runtime.Address, want)
	}

	// The journal knows the framework as the runtime spells it.
	env.Framework = cmp.Or(m.Runtime.Framework, env.Framework)
	want := m.Cases.PointRecord()
	ids, err := table.Strings(want, "case_id")
	if err != nil {
		return rep, err
	}

	rep.Planned = ids.Len()
	found, err := match(want, set, m.Cases.Spec.Op, m.Schema().Primary().Name, &rep)
	if err != nil {
		return rep, err
	}

	var journal *checkpoint.Journal
	if journal, rep.Journal, err = m.Journal(store, env); err != nil {
		return rep, err
	}

	from := origins(set)
	var entries []checkpoint.Entry
	for unit, rows := range found {
		switch kind, there := journal.Has(ids.Values[unit]); {
		case there && kind == checkpoint.Measured:
			rep.Already++
			continue
		case len(rows) == 0:
			rep.Missing++
			continue
		}

		payload, err := collect.MeasuredEntry(workerRows(set, rows, m.Columns(), from))
		if err != nil {
			return rep, err
		}

		rep.Seeded++
		entries = append(entries, checkpoint.Entry{ID: ids.Values[unit], Kind: checkpoint.Measured, Payload: payload})
	}

	if dryRun || len(entries) == 0 {
		return rep, nil
	}

	return rep, journal.AppendAll(entries)
}

// match finds the rows of the table for every planned case, or point of a sweep. Columns of the grid that the table
// lacks must have one value in the whole grid, so that they do not distinguish rows.
func match(want arrow.Record, set *Set, op, metric string, rep *SeedReport) ([][]int, error) {
	rec := set.Data.Table
	for _, name := range table.Names(want) {
		if name == "case_id" || name == "status" {
			continue
		}
		if table.Has(rec, name) {
			rep.Columns = append(rep.Columns, name)
		} else if len(slices.Compact(table.Keys(want, name))) > 1 {
			return nil, fmt.Errorf(
				"the grid's column %s has several values and the table lacks it, so its rows cannot be matched; the table has %s",
				name,
				strings.Join(table.Names(rec), ", "),
			)
		}
	}

	key := rep.Columns
	if len(key) == 0 {
		return nil, errors.New("the grid and the table have no column in common")
	}

	lat, err := table.Float64s(rec, metric)
	if err != nil {
		return nil, err
	}

	have := table.Keys(rec, key...)
	units := map[string]int{}
	for i, k := range table.Keys(want, key...) {
		units[k] = i
	}

	perf, _ := set.Data.Info.Tables().Lookup(set.Data.Info.Perf)
	if perf == nil {
		perf = &catalog.Table{}
	}
	ops, opName := opNames(rec, op)
	found := make([][]int, want.NumRows())
	kernel := -1 // the column, if a shape has rows of several kernels
	if slices.Contains(perf.KeyOf(rec), "kernel_source") {
		kernel = table.Index(rec, "kernel_source")
	}
	shown := append(slices.Clone(key), metric)

	for row, k := range have {
		unit, ok := units[k]
		if !ok || ops != nil && ops.Values[row] != opName {
			rep.Unused++
			continue
		}

		v, ok := lat.At(row)
		if !ok || rules.Unusable(metric, v, perf.ZeroLegal) != "" || v > 1e12 {
			rep.Bad = append(rep.Bad, table.Describe(rec, row, shown))
			continue
		}

		same := slices.IndexFunc(found[unit], func(other int) bool {
			return kernel < 0 || table.Text(rec.Column(kernel), row) == table.Text(rec.Column(kernel), other)
		})
		if same < 0 {
			found[unit] = append(found[unit], row)
			continue
		}

		// Of repeated rows the one counts that readers take.
		taken, left := found[unit][same], row
		if perf.Repeats == catalog.TakeLast {
			taken, left = row, taken
		}
		found[unit][same] = taken
		if a, _ := lat.At(taken); a != lat.Values[left] {
			rep.Repeated = append(rep.Repeated, fmt.Sprintf("%s; taken: %v", table.Describe(rec, left, shown), a))
		}
	}

	return found, nil
}

// opNames returns the column that distinguishes the ops of a shared table, and its word for op. The column is
// nil if all rows belong to one op.
func opNames(rec arrow.Record, op string) (*table.Col[string], string) {
	o, ok := catalog.LookupOp(op)
	if !ok || o.OpName == "" {
		return nil, ""
	}

	t, ok := catalog.Lookup(o.Table)
	if !ok || !t.OpNameKey {
		return nil, ""
	}

	col, err := table.Strings(rec, "op_name")
	if err != nil {
		return nil, ""
	}

	return col, o.OpName
}

// workerRows are rows as a worker would have sent them.
func workerRows(set *Set, rows []int, columns []string, from []string) []worker.Row {
	var out []worker.Row
	for _, row := range rows {
		r := worker.Row{"imported_from": from[row]}
		for _, name := range columns {
			if i := table.Index(set.Data.Table, name); i >= 0 {
				if v := table.Value(set.Data.Table, i, row); v != nil {
					r[name] = v
				}
			}
		}

		out = append(out, r)
	}

	return out
}

// origins names the file of every row.
func origins(set *Set) []string {
	var out []string
	for _, f := range set.Files {
		name := filepath.Base(f.Path) + " " + f.Digest
		for range f.Rows {
			out = append(out, name)
		}
	}

	return out
}
