package stage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// Forecast is what is known of a stage's table before the stage has run, so
// that the stages that read it can be checked against it when the plan is made.
type Forecast struct {
	// Info as far as it is known; Version and Device mostly are not.
	Info Info
	// Columns are those that the table has or may have, each once.
	Columns []string
	// Open is true when it may have others: op functions return what they like.
	Open bool
	// Cases is true for planned cases without measurements.
	Cases bool
	// Rows are the planned cases of which every row answers one, with its values;
	// where Measured is true they are the rows themselves. Nil where neither is known.
	Rows     arrow.Record
	Measured bool
	// Origin names who measures where Info.Version does not say it yet: rows of
	// one origin have one framework and version.
	Origin string
}

// Forecasts looks up the forecast of a stage; nil where nothing is known.
type Forecasts func(*Ref) *Forecast

// Forecaster is implemented by stages that know before they run what their table
// will look like, or that they cannot use what they are going to read.
type Forecaster interface {
	// Forecast returns nil if nothing is known about the table. at is the block of
	// the stage, for diagnostics.
	Forecast(at hcl.Range, in Forecasts) (*Forecast, hcl.Diagnostics)
}

// ForecastOf is the forecast of a dataset that is there already.
func ForecastOf(ds *Dataset) *Forecast {
	rec := ds.Table
	if rec == nil {
		rec = ds.Planned
	}
	if rec == nil {
		return nil
	}
	f := &Forecast{Info: ds.Info, Cases: ds.Table == nil, Rows: rec, Measured: ds.Table != nil}
	for _, c := range rec.Schema().Fields() {
		f.Columns = append(f.Columns, c.Name)
	}
	return f
}

// Lacks says what is wrong with a column that a block names: "" when the table
// may have it. sure is false where it may have columns that nobody knows yet.
func (f *Forecast) Lacks(column string) (problem string, sure bool) {
	if f == nil || slices.Contains(f.Columns, column) {
		return "", false
	}
	near := textutil.DidYouMean(column, f.Columns)
	switch {
	case !f.Open && near != "":
		return fmt.Sprintf("The data is not going to have a column %q.%s", column, near), true
	case !f.Open:
		const most = 16
		have := strings.Join(f.Columns[:min(len(f.Columns), most)], ", ")
		if len(f.Columns) > most {
			have = fmt.Sprintf("%s and what measurements are told with: %s and %d more", strings.Join(f.Info.Params, ", "), "latency, rel_stdev, power", len(f.Columns)-len(f.Info.Params)-3)
		}
		return fmt.Sprintf("The data is not going to have a column %q. It has %s.", column, have), true
	case near != "":
		return fmt.Sprintf("No column %q is known.%s", column, near), false
	}
	return "", false
}

// Through is the forecast of a stage that hands on what it reads.
func Through(v cty.Value, in Forecasts) *Forecast {
	ref, err := RefOf(v)
	if err != nil {
		return nil
	}
	return in(ref)
}

// MissingColumns are the diagnostics of columns that a block names and the data
// is not going to have: errors where that is sure, else warnings. Data without
// measurements is one error.
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
		d := &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Unknown column", Detail: problem, Subject: at.Ptr()}
		if sure {
			d.Severity = hcl.DiagError
		}
		diags = append(diags, d)
	}
	return diags
}

// NoRows is the diagnostic of an input that has planned cases and no rows.
func NoRows(at hcl.Range) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Input without rows", Subject: at.Ptr(),
		Detail: "The input is a grid: its cases are not measured yet. Name the collect that measures them, or a stage after it."}
}
