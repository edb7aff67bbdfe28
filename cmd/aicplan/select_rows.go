package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/phrase"
	"aicplan/sink/table"
)

// rowFlags choose rows and columns of a table.
type rowFlags struct {
	Columns  []string `help:"Only these columns, in this order." placeholder:"COLUMN"`
	Where    string   `help:"Only rows of which this HCL expression is true; columns are names in it, such as 'm >= 64 && gemm_dtype == \"fp8\"'." placeholder:"EXPRESSION"`
	Sort     []string `help:"Sort by these columns; with :desc the largest first." placeholder:"COLUMN"`
	Limit    *int     `help:"At most N rows." placeholder:"N"`
	Slowest  *int     `help:"The N rows with the largest latency." placeholder:"N"`
	Noisiest *int     `help:"The N rows with the largest rel_stdev." placeholder:"N"`
}

// Validate is called by kong.
func (f *rowFlags) Validate() error {
	for _, n := range []struct {
		flag  string
		value *int
	}{{"-limit", f.Limit}, {"-slowest", f.Slowest}, {"-noisiest", f.Noisiest}} {
		if n.value != nil && *n.value < 1 {
			return fmt.Errorf("%s is %d; it is a number from 1", n.flag, *n.value)
		}
	}
	if f.Slowest != nil && f.Noisiest != nil {
		return fmt.Errorf("-slowest and -noisiest sort rows by different columns; give one of them")
	}
	if (f.Slowest != nil || f.Noisiest != nil) && len(f.Sort) > 0 {
		return fmt.Errorf("-slowest and -noisiest sort the rows themselves; leave -sort away")
	}
	return nil
}

// chosen are the rows and columns that the flags ask for. lacking counts rows
// that -where could not judge, because a value of theirs is not known.
func (f *rowFlags) chosen(t arrow.Record, info stage.Info) (out arrow.Record, lacking int, err error) {
	if f.Where != "" {
		if t, lacking, err = where(t, f.Where); err != nil {
			return nil, 0, err
		}
	}
	order, limit := f.Sort, f.Limit
	switch {
	case f.Slowest != nil:
		order, limit = []string{catalog.SchemaOf(info.Perf).Primary().Name + ":desc"}, f.Slowest
	case f.Noisiest != nil:
		order, limit = []string{"rel_stdev:desc"}, f.Noisiest
	}
	if t, err = sortedRows(t, order); err != nil {
		return nil, 0, err
	}
	if limit != nil {
		t = limited(t, *limit)
	}
	if f.Limit != nil {
		t = limited(t, *f.Limit)
	}
	if len(f.Columns) > 0 {
		for _, name := range f.Columns {
			if err := hasColumn(t, name, "-columns"); err != nil {
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
	return fmt.Errorf("%s: there is no column %q.%s The columns are %s", flag, name, phrase.DidYouMean(name, table.Names(t)), strings.Join(table.Names(t), ", "))
}

// sortedRows sorts by columns; values that are not known come last either way.
func sortedRows(t arrow.Record, by []string) (arrow.Record, error) {
	if len(by) == 0 {
		return t, nil
	}
	var keys []table.SortKey
	for _, text := range by {
		name, direction, _ := strings.Cut(text, ":")
		if direction != "" && direction != "desc" && direction != "asc" {
			return nil, fmt.Errorf("-sort %s: write COLUMN, COLUMN:asc or COLUMN:desc", text)
		}
		if err := hasColumn(t, name, "-sort"); err != nil {
			return nil, err
		}
		keys = append(keys, table.SortKey{Name: name, Desc: direction == "desc"})
	}
	return table.Sort(t, keys...)
}

// where keeps the rows of which an expression is true. It is not true of rows
// that lack a value that it needs; they are counted.
func where(t arrow.Record, text string) (kept arrow.Record, lacking int, err error) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), "-where", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, 0, whereError(diags, text)
	}
	at := map[string]int{}
	for _, v := range expr.Variables() {
		name := v.RootName()
		if err := hasColumn(t, name, "-where"); err != nil {
			return nil, 0, err
		}
		at[name] = table.Index(t, name)
	}
	ctx := &hcl.EvalContext{Functions: config.Functions(), Variables: map[string]cty.Value{}}
	var rows []int
	for row := range int(t.NumRows()) {
		unknown := false
		for name, column := range at {
			v := table.Value(t, column, row)
			unknown = unknown || v == nil
			ctx.Variables[name] = plainValue(v)
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
			return nil, 0, fmt.Errorf("-where '%s' is %s; it must be true or false, such as m >= 64", text, v.Type().FriendlyName())
		case v.True():
			rows = append(rows, row)
		}
	}
	return table.Take(t, rows), lacking, nil
}

// plainValue is a cell as expressions see it. Numbers are the decimals that they
// are written as, so that they equal the literals of an expression.
func plainValue(v any) cty.Value {
	switch v := v.(type) {
	case int64:
		return cty.NumberIntVal(v)
	case float64:
		n, err := cty.ParseNumberVal(strconv.FormatFloat(v, 'g', -1, 64))
		if err != nil { // infinite, or no number
			return cty.NullVal(cty.Number)
		}
		return n
	case bool:
		return cty.BoolVal(v)
	case string:
		return cty.StringVal(v)
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

func whereError(diags hcl.Diagnostics, text string) error {
	d := diags[0]
	hint := ""
	if strings.Contains(text, "=") && !strings.Contains(text, "==") && !strings.ContainsAny(text, "<>!") {
		hint = " Equality is written ==."
	}
	return fmt.Errorf("-where '%s', column %d: %s: %s%s", text, d.Subject.Start.Column, d.Summary, d.Detail, hint)
}
