package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/sink/catalog"
)

// tableBody is the body of a table block. Its attributes are constants, because tables are known before
// anything is evaluated.
type tableBody struct {
	// Family is the folder of the table in a database of families.
	Family string `hcl:"family"`
	// Description is what the rows measure.
	Description string `hcl:"description,optional"`
	// Ops lists the ops of grids whose rows belong to the table. A grid can also name the table with perf_table.
	Ops []string `hcl:"ops,optional"`
	// Key lists the columns that identify a row.
	Key []string `hcl:"key"`
	// Columns (labelled blocks) describe the columns, in the order of the file.
	Columns []columnBody `hcl:"column,block"`
	// Metrics (labelled blocks) describe the measured columns. Rows are compared by the first.
	Metrics []metricBody `hcl:"metric,block"`
}

type columnBody struct {
	Name string `hcl:"name,label"`
	// Type is "int64", "float64", "string" or "bool".
	Type string `hcl:"type"`
	// Unit is the unit of the values.
	Unit string `hcl:"unit,optional"`
	// Description is text for readers.
	Description string `hcl:"description,optional"`
}

type metricBody struct {
	Name string `hcl:"name,label"`
	// Unit is the unit of the values.
	Unit string `hcl:"unit,optional"`
	// Better is "lower" or "higher". The default is "lower".
	Better string `hcl:"better,optional"`
	// Nullable accepts rows without a value.
	Nullable bool `hcl:"nullable,optional"`
	// Zero accepts 0 as a value. Without it, a case fails if the first metric is 0, and exports refuse it.
	Zero bool `hcl:"zero,optional"`
	// Description is text for readers.
	Description string `hcl:"description,optional"`
}

// declareTable adds the table of a block to the catalog of the plan. All modules share the catalog.
func (l *loader) declareTable(b *hclsyntax.Block) hcl.Diagnostics {
	name, diags := oneLabel(b)
	if diags.HasErrors() {
		return diags
	}

	var body tableBody
	if more := gohcl.DecodeBody(b.Body, nil, &body); more.HasErrors() {
		return append(diags, more...)
	}

	d := catalog.Declaration{Name: name, Family: body.Family, Doc: body.Description, Ops: body.Ops, Key: body.Key}
	for _, c := range body.Columns {
		d.Columns = append(d.Columns, catalog.Field{Name: c.Name, Type: c.Type, Unit: c.Unit, Doc: c.Description})
	}

	for _, m := range body.Metrics {
		d.Metrics = append(d.Metrics, m.Name)
		d.Columns = append(d.Columns, catalog.Field{Name: m.Name, Type: "float64", Unit: m.Unit, Doc: m.Description,
			Better: m.Better, Nullable: m.Nullable, Zero: m.Zero})
	}

	all := append(l.declared[:len(l.declared):len(l.declared)], d)
	tables, err := catalog.New(all...)
	if err != nil {
		return append(diags, errorAt(b.DefRange(), "Invalid table", "%s", err.Error()+".")...)
	}

	l.declared, l.tables = all, tables
	return diags
}
