package dedupe

import (
	"slices"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// KeyColumns returns the columns that identify a row of the dataset: the key that readers of its perf
// table use (with kernel_source and op_name if they distinguish rows), else the case parameters, else
// every column that is neither a measurement nor provenance. Optional columns that the data lacks are left
// out. Rows of different perf tables never repeat each other.
func KeyColumns(ds *stage.Dataset) []string {
	key := keyColumns(ds)
	if ds.Table != nil && table.Has(ds.Table, catalog.RowTable) && !slices.Contains(key, catalog.RowTable) {
		return append([]string{catalog.RowTable}, key...)
	}
	return key
}

func keyColumns(ds *stage.Dataset) []string {
	if t, ok := ds.Info.Tables().Lookup(ds.Info.Perf); ok && ds.Table != nil && !(t.Open && len(ds.Info.Params) > 0) {
		return slices.DeleteFunc(t.KeyOf(ds.Table), func(c string) bool { return !table.Has(ds.Table, c) })
	}

	if len(ds.Info.Params) > 0 {
		return ds.Info.Params
	}

	if ds.Table == nil {
		return nil
	}
	return catalog.Shape(ds.Table.Schema())
}

// PerfTable returns the perf table of the dataset: the one it names, else that of its op if the data has
// the columns that the table needs.
func PerfTable(ds *stage.Dataset) (*catalog.Table, bool) {
	if t, ok := ds.Info.Tables().Lookup(ds.Info.Perf); ok {
		return t, true
	}

	op, ok := catalog.LookupOp(ds.Info.Op)
	if !ok || ds.Info.Perf != "" || ds.Table == nil {
		return nil, false
	}

	t, ok := catalog.Lookup(op.Table)
	if !ok {
		return nil, false
	}

	for _, c := range t.Required() {
		if c != "op_name" && !table.Has(ds.Table, c) {
			return nil, false
		}
	}

	return t, true
}

// SchemaOf returns the metrics of the dataset's rows.
func SchemaOf(ds *stage.Dataset) *catalog.Schema {
	if t, ok := PerfTable(ds); ok {
		return t.Schema()
	}
	return catalog.SchemaOf("")
}

// Lost is what a ledger says of a case without a measurement.
type Lost struct{ Status, Class, Message string }

// LostCases returns the ledger of a dataset by case id.
func LostCases(ds *stage.Dataset) map[string]Lost {
	out := map[string]Lost{}
	for i := range table.Len(ds.Ledger) {
		row := table.Row(ds.Ledger, i)
		text := func(name string) string {
			s, _ := row[name].(string)
			return s
		}
		out[text("case_id")] = Lost{text("status"), text("class"), text("message")}
	}
	return out
}
