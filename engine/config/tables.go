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
	Family      string       `hcl:"family"`
	Description string       `hcl:"description,optional"`
	Ops         []string     `hcl:"ops,optional"`
	Key         []string     `hcl:"key"`
	Columns     []columnBody `hcl:"column,block"`
	Metrics     []metricBody `hcl:"metric,block"`
}

type columnBody struct {
	Name        string `hcl:"name,label"`
	Type        string `hcl:"type"`
	Unit        string `hcl:"unit,optional"`
	Description string `hcl:"description,optional"`
}

type metricBody struct {
	Name        string `hcl:"name,label"`
	Unit        string `hcl:"unit,optional"`
	Better      string `hcl:"better,optional"`
	Nullable    bool   `hcl:"nullable,optional"`
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
			Better: m.Better, Nullable: m.Nullable})
	}

	all := append(l.declared[:len(l.declared):len(l.declared)], d)
	tables, err := catalog.New(all...)
	if err != nil {
		return append(diags, errorAt(b.DefRange(), "Invalid table", err.Error()+"."))
	}

	l.declared, l.tables = all, tables
	return diags
}
