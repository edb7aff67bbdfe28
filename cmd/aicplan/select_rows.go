package main

import (
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// rowFlags select rows and columns of a table.
type rowFlags struct {
	Columns []string `help:"Only these columns, in this order." placeholder:"COLUMN"`
	Where   string   `help:"Only rows for which this HCL expression is true." placeholder:"EXPRESSION"`
	Sort    []string `help:"Sort by these columns; with :desc the largest first." placeholder:"COLUMN"`
	Limit   int      `help:"At most N rows." least:"1"`
}

// chosen returns the rows and columns that the flags select. lacking is the number of rows that --where
// could not evaluate because of a null value.
func (f *rowFlags) chosen(t arrow.Record) (out arrow.Record, lacking int, err error) {
	if f.Where != "" {
		if t, lacking, err = where(t, f.Where); err != nil {
			return nil, 0, err
		}
	}

	if t, err = sortedRows(t, f.Sort); err != nil {
		return nil, 0, err
	}

	t = limited(t, f.Limit)
	if len(f.Columns) > 0 {
		for _, name := range f.Columns {
			if err := hasColumn(t, name, "--columns"); err != nil {
				return nil, 0, err
			}
		}
		if t, err = table.Select(t, f.Columns...); err != nil {
			return nil, 0, err
		}
	}

	return t, lacking, nil
}

func hasColumn(t arrow.Record, name, flag string) error {
	if table.Has(t, name) {
		return nil
	}
	return fmt.Errorf("%s: there is no column %q.%s The columns are %s", flag, name,
		textutil.DidYouMean(name, table.Names(t)), strings.Join(table.Names(t), ", "))
}

// sortedRows sorts by columns. Null values come last in both directions.
func sortedRows(t arrow.Record, by []string) (arrow.Record, error) {
	if len(by) == 0 {
		return t, nil
	}

	var keys []string
	for _, text := range by {
		name, direction, _ := strings.Cut(text, ":")
		if direction != "" && direction != "desc" && direction != "asc" {
			return nil, fmt.Errorf("--sort %s: write COLUMN, COLUMN:asc or COLUMN:desc", text)
		}
		if err := hasColumn(t, name, "--sort"); err != nil {
			return nil, err
		}
		if direction == "desc" {
			name = "-" + name
		}
		keys = append(keys, name)
	}

	return table.Sort(t, keys...)
}

// where returns the rows for which an expression is true. Rows that lack a value are not included;
// lacking counts them.
func where(t arrow.Record, text string) (kept arrow.Record, lacking int, err error) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), "--where", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, 0, whereError(diags, text)
	}

	at := map[string]int{}
	for _, v := range expr.Variables() {
		name := v.RootName()
		if err := hasColumn(t, name, "--where"); err != nil {
			return nil, 0, err
		}
		at[name] = table.Index(t, name)
	}

	ctx := &hcl.EvalContext{Functions: config.Functions(), Variables: map[string]cty.Value{}}
	for name, column := range at {
		ctx.Variables[name] = cty.UnknownVal(columnType(t, column))
	}
	if op, left, right := stage.NeverEqual(expr, ctx); op != nil {
		source := func(e hclsyntax.Expression) string { return string(e.Range().SliceBytes([]byte(text))) }
		return nil, 0, fmt.Errorf("--where '%s', column %d: %s is a %s and %s is a %s, so they are equal in no row; "+
			"compare values of one type: \"8\" is a string, 8 is a number, true is a bool", text,
			op.Range().Start.Column, source(op.LHS), left.FriendlyName(), source(op.RHS), right.FriendlyName())
	}

	var rows []int
	for row := range table.Len(t) {
		unknown := false
		for name, column := range at {
			v := stage.Cell(table.Value(t, column, row))
			unknown = unknown || v.IsNull()
			ctx.Variables[name] = v
		}

		v, diags := expr.Value(ctx)
		if diags.HasErrors() && unknown {
			lacking++
			continue
		}

		if diags.HasErrors() {
			return nil, 0, whereError(diags, text)
		}

		switch {
		case v.IsNull():
			lacking++
		case v.Type() != cty.Bool:
			return nil, 0, fmt.Errorf("--where '%s' is %s; it must be true or false, such as m >= 64", text,
				v.Type().FriendlyName())
		case v.True():
			rows = append(rows, row)
		}
	}

	return table.Take(t, rows), lacking, nil
}

// columnType returns the type of a column in expressions. It is dynamic if the column has no values.
func columnType(t arrow.Record, column int) cty.Type {
	for row := range table.Len(t) {
		if v := table.Value(t, column, row); v != nil {
			return stage.Cell(v).Type()
		}
	}
	return cty.DynamicPseudoType
}

func whereError(diags hcl.Diagnostics, text string) error {
	d := diags[0]
	hint := ""
	if strings.Contains(text, "=") && !strings.Contains(text, "==") && !strings.ContainsAny(text, "<>!") {
		hint = " Equality is written ==."
	}
	return fmt.Errorf("--where '%s', column %d: %s: %s%s", text, d.Subject.Start.Column, d.Summary, d.Detail, hint)
}
