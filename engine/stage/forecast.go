package stage

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// Forecast describes a stage's table before the stage has run. Stages that read it are checked against it when the
// plan is made.
type Forecast struct {
	// Info as far as it is known. Version and Device are mostly unknown.
	Info Info
	// Columns are those that the table has or may have, without repetition.
	Columns []string
	// Open is set if the table may have further columns, because op functions choose what they return.
	Open bool
	// Cases is set for planned cases without measurements.
	Cases bool
	// Rows are the planned cases with their values, one for each row, or the rows themselves if there are some
	// already. Nil means unknown.
	Rows arrow.Record
	// Origin identifies the framework and version if Info.Version is unknown: rows of one origin have the same
	// ones.
	Origin string
}

// Forecasts returns the forecast of a stage, or nil if nothing is known.
type Forecasts func(*Ref) *Forecast

// Forecaster is implemented by stages that can describe their table before they run, or detect that they cannot
// use their input. A stage that passes all rows of its input on returns the same pointer, and no other stage does.
type Forecaster interface {
	// Forecast returns nil if nothing is known about the table. at is the block of the stage, for diagnostics.
	Forecast(at hcl.Range, in Forecasts) (*Forecast, hcl.Diagnostics)
}

// ForecastOf returns the forecast of an existing dataset.
func ForecastOf(ds *Dataset) *Forecast {
	rec := ds.Table
	if rec == nil {
		rec = ds.Planned
	}
	if rec == nil {
		return nil
	}
	f := &Forecast{Info: ds.Info, Cases: ds.Table == nil, Rows: rec}
	for _, c := range rec.Schema().Fields() {
		f.Columns = append(f.Columns, c.Name)
	}
	return f
}

// Lacks returns why a table cannot have a column that a block names, or "" if it may have it. sure is false if the
// table may have unknown columns.
func (f *Forecast) Lacks(column string) (problem string, sure bool) {
	if f == nil || slices.Contains(f.Columns, column) {
		return "", false
	}
	near := textutil.DidYouMean(column, f.Columns)
	switch {
	case !f.Open && near != "":
		return fmt.Sprintf("The data is not going to have a column %q.%s", column, near), true
	case !f.Open:
		return fmt.Sprintf("The data is not going to have a column %q. It has %s.", column,
			textutil.First(f.Columns, 16, ", ")), true
	case near != "":
		return fmt.Sprintf("No column %q is known.%s", column, near), false
	}

	return "", false
}

// Through returns the forecast of a stage that passes its input on.
func Through(v cty.Value, in Forecasts) *Forecast {
	ref, err := RefOf(v)
	if err != nil {
		return nil
	}
	return in(ref)
}

// MissingColumns returns diagnostics for columns that a block names and the data is not going to have: errors if
// that is certain, otherwise warnings. Data without measurements is one error.
func MissingColumns(f *Forecast, columns []string, at hcl.Range) hcl.Diagnostics {
	if f != nil && f.Cases {
		return hcl.Diagnostics{NoRows(at)}
	}
	var diags hcl.Diagnostics
	for _, c := range columns {
		problem, sure := f.Lacks(c)
		if problem == "" {
			continue
		}
		d := WarningAt(at, "Unknown column", "%s", problem)
		if sure {
			d[0].Severity = hcl.DiagError
		}
		diags = append(diags, d...)
	}

	return diags
}

// NoRows returns the diagnostic for an input that has planned cases and no rows.
func NoRows(at hcl.Range) *hcl.Diagnostic {
	return ErrorAt(at, "Input without rows",
		"The input is a grid: its cases are not measured yet. Name the collect that measures them, or a stage after it.")[0]
}
