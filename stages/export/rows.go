package export

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

var identity = []string{"framework", "version", "device", "op_name", "kernel_source"}

// shape is what the columns of a perf file follow from.
type shape struct {
	table   *catalog.Table // nil for ops without a published table
	backend string
	power   string
	strict  bool // words that readers do not know are errors, not notes
}

// assembly is one export: the datasets, the file and what a reader of it may want to know.
type assembly struct {
	*Config
	rc *stage.RunContext
	shape
	to      target
	sets    []*stage.Dataset
	partial string       // why the sets lack cases, or ""
	rec     arrow.Record // the rows of the sets in the form of the file
	key     []string
	from    origin
	lacks   []string // columns that the file is written without
	words   []string // that readers do not know
	dropped string   // why the file has no power although rows have

	tree.MergeReport
	merged bool
	doubts []stage.CheckResult
}

// rows brings a dataset to the form of its perf file: identity columns
// first, the op's columns, the metrics, then power.
func (a *assembly) rows(ds *stage.Dataset) (arrow.Record, error) {
	rec, err := a.ownRows(ds)
	if err != nil {
		return nil, err
	}

	a.from = a.from.and(originOf(ds, rec))
	if rec, err = a.withIdentity(rec, ds); err != nil {
		return nil, err
	}
	names, err := a.names(rec, ds)
	if err != nil {
		return nil, err
	}
	power, err := a.powerColumns(rec)
	if err != nil {
		return nil, err
	}

	out, err := table.Select(rec, append(names, power...)...)
	if err != nil {
		return nil, err
	}
	if out, err = a.conform(out); err != nil {
		return nil, err
	}
	return a.rounded(out, ds), nil
}

// digits is the number of significant digits of a measured number in a perf file. Clocks
// resolve far fewer.
const digits = 9

// rounded returns rec with measured floats of the given number of digits. Columns that
// identify a row and rows from files are left as they are.
func (sh shape) rounded(rec arrow.Record, ds *stage.Dataset) arrow.Record {
	if ds.Planned == nil {
		return rec
	}

	fixed := ds.Info.Params
	if sh.table != nil {
		fixed = slices.Concat(fixed, sh.table.Key())
	}

	for i, name := range table.Names(rec) {
		if rec.Column(i).DataType().ID() != arrow.FLOAT64 || slices.Contains(fixed, name) {
			continue
		}
		col, _ := table.Float64s(rec, name)
		values := make([]float64, len(col.Values))
		for row, v := range col.Values {
			values[row], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // infinite if it is too large
		}
		rec = table.WithColumn(rec, name, table.Floats(values, col.Valid))
	}
	return rec
}

// ownRows keeps the rows that belong to the table: cases of some ops fill two.
func (sh shape) ownRows(ds *stage.Dataset) (arrow.Record, error) {
	rec := ds.Table
	if sh.table == nil || !table.Has(rec, catalog.RowTable) {
		return rec, nil
	}

	of, err := table.Strings(rec, catalog.RowTable)
	if err != nil {
		return nil, err
	}

	own := tableOf("", ds.Info)
	out := table.Filter(rec, func(i int) bool { return cmp.Or(catalog.Stem(of.Values[i]), own) == sh.table.Name })
	if out.NumRows() == 0 {
		return nil, fmt.Errorf("none of the %d rows belongs to %s", rec.NumRows(), sh.table.Name)
	}

	return out, nil
}

// identity are the columns that open a row. Rows of a server have no kernel.
func (sh shape) identity() []string {
	switch {
	case sh.table != nil && sh.table.Open:
		return identity[:4]
	case sh.table != nil && !sh.table.Identified():
		return identity[4:]
	}
	return identity
}

// withIdentity adds the identity columns that the table lacks, with the values of the
// dataset's Info.
func (sh shape) withIdentity(rec arrow.Record, ds *stage.Dataset) (arrow.Record, error) {
	n, op := table.Len(rec), ds.Info.Op
	if o, ok := catalog.LookupOp(op); ok && o.OpName != "" {
		op = o.OpName
	} else if sh.table != nil && len(sh.table.OpNames) == 1 {
		op = sh.table.OpNames[0]
	}

	known := map[string]string{"framework": ds.Info.Framework, "version": ds.Info.Version,
		"device": ds.Info.Device, "op_name": op}
	for _, name := range sh.identity() {
		if table.Has(rec, name) {
			col, err := table.Strings(rec, name)
			if err != nil {
				return nil, err
			}

			lacking := col.Nulls()
			if name == "kernel_source" { // a runtime may have no framework
				lacking = table.Empty(col)
			}
			if lacking > 0 {
				return nil, fmt.Errorf("%d of %d rows have no %s, and a perf file needs it for every row", lacking, n, name)
			}

			if name == "framework" && ds.Info.Runtime != "" {
				rec = table.WithColumn(rec, name, sh.labelled(col.Values))
			}

			continue
		}

		if known[name] == "" {
			return nil, fmt.Errorf("the data has no %s, which a perf file needs; it has the columns %s. If it is an "+
				"import, set its framework, framework_version and device", name, strings.Join(table.Names(rec), ", "))
		}

		rec = table.WithColumn(rec, name, table.Constant(known[name], n))
	}

	return rec, nil
}

// labelled replaces the backend's usual word by that of the published files of the table: a
// few collectors write vLLM, the others VLLM.
func (sh shape) labelled(words []string) arrow.Array {
	out := slices.Clone(words)
	b, ok := catalog.LookupBackend(sh.backend)
	for i, w := range out {
		if ok && sh.table != nil && w == b.Framework {
			out[i] = sh.table.Framework(sh.backend)
		}
	}

	return table.Texts(out, nil)
}

// names lists the file's columns without power.
func (a *assembly) names(rec arrow.Record, ds *stage.Dataset) ([]string, error) {
	names := slices.Clone(a.identity())
	add := func(list ...string) {
		for _, c := range list {
			if !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}

	switch {
	case a.table == nil && len(ds.Info.Params) == 0:
		return nil, fmt.Errorf("the data belongs to no perf table and names no parameters; set \"table\"")
	case a.table == nil || a.table.Open: // the columns of the grid
		add(ds.Info.Params...)
		add(a.metrics(rec)...)
		return names, nil
	case !a.table.Identified():
		names = nil // kernel_source follows the latency
	}

	var missing []string
	required := a.table.Required()
	for _, c := range a.table.Columns(a.backend, false) {
		switch {
		case table.Has(rec, c.Name):
			add(c.Name)
		case slices.Contains(required, c.Name):
			missing = append(missing, c.Name)
		case c.Role != catalog.Identity:
			a.lacks = append(a.lacks, fmt.Sprintf("%s is written without its column %s, which the data lacks",
				a.table.Name, c.Name))
		}
	}

	for _, c := range a.table.Extra() {
		if table.Has(rec, c.Name) {
			add(c.Name)
		}
	}

	if len(missing) > 0 {
		return nil, fmt.Errorf(
			"%s needs the columns %s, and the data has %s; name the axes of the grid as the table does, or choose another table",
			a.table.Name,
			strings.Join(missing, ", "),
			strings.Join(table.Names(rec), ", "),
		)
	}
	return names, nil
}

// metrics are the measured columns to write: those that every row has, and
// others that are there.
func (sh shape) metrics(rec arrow.Record) []string {
	schema := catalog.SchemaOf("")
	if sh.table != nil {
		schema = sh.table.Schema()
	}

	var out []string
	for _, m := range schema.Metrics {
		if !m.Lacking || table.Has(rec, m.Name) {
			out = append(out, m.Name)
		}
	}

	return out
}

// powerColumns returns the power columns to write, and keeps why there are none although rows have
// a power. A power that is not above zero is not a measurement.
func (a *assembly) powerColumns(rec arrow.Record) ([]string, error) {
	if a.power == PowerNever {
		return nil, nil
	}

	columns := []string{"power", "power_limit"}
	rows := table.Len(rec)
	have, said := rows, false
	for _, name := range columns {
		col, err := table.Float64s(rec, name) // nil if there is none
		if err != nil && table.Has(rec, name) {
			return nil, err
		}

		n := 0
		for i := range rows {
			v, ok := col.At(i)
			if !ok || math.IsNaN(v) {
				continue
			}
			if said = said || name == "power"; v > 0 && !math.IsInf(v, 0) {
				n++
			}
		}
		have = min(have, n)
	}

	switch {
	case have == rows && rows > 0:
		return columns, nil
	case a.power == PowerNeed:
		return nil, fmt.Errorf("power = \"require\", and %d of %d rows have it; measure with power = true", have, rows)
	case said:
		a.dropped = fmt.Sprintf(
			"%d of %d rows have a power and a limit above zero, and readers need them for every row of a file: they are not "+
				"written",
			have,
			rows,
		)
	}

	return nil, nil
}

// conform brings types and words to what readers of the table accept.
func (a *assembly) conform(rec arrow.Record) (arrow.Record, error) {
	if a.table == nil {
		return rec, nil
	}

	for i, name := range table.Names(rec) {
		col, ok := a.table.Column(name)
		if !ok {
			continue
		}

		arr, err := rules.Convert(rec, name, col.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: the column %s cannot be %s: %w", a.table.Name, name, col.Type, err)
		}

		if words := catalog.Words(name); words != nil && !a.table.Declared {
			if arr, err = a.spell(rec, name); err != nil {
				return nil, fmt.Errorf("%s: %w", a.table.Name, err)
			}
		}

		if arr != rec.Column(i) {
			rec = table.WithColumn(rec, name, arr)
		}
	}

	return rec, nil
}

// spell writes dtype words as the backend's readers know them.
func (a *assembly) spell(rec arrow.Record, name string) (arrow.Array, error) {
	codes, words, err := table.Codes(rec, name)
	if err != nil {
		return nil, err
	}

	for i, w := range words {
		now, err := catalog.Word(name, w)
		switch {
		case err == nil:
			words[i] = a.table.Spelling(a.backend, name, now)
		case a.strict:
			return nil, fmt.Errorf("%w; readers give up on the whole table", err)
		default:
			a.words = append(a.words,
				fmt.Sprintf("aiconfigurator does not know the %s %q and could not read the table", name, w))
		}
	}

	out := make([]string, len(codes))
	for i, code := range codes {
		if code < 0 {
			return nil, fmt.Errorf("column %q, row %d has no value", name, i+1)
		}
		out[i] = words[code]
	}

	return table.Texts(out, nil), nil
}
