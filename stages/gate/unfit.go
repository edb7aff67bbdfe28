package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// unmatched reports an "on" that matches no row of the forecast. Only columns with values known at plan
// time are checked: a row has the parameters of its case. It is an error if the gate would certainly
// fail, so that the plan fails before measuring starts. A single unmatched value of a list is a warning.
func (e entry) unmatched(f *stage.Forecast) hcl.Diagnostics {
	if len(e.on) == 0 || f == nil || f.Rows == nil || f.Rows.NumRows() == 0 {
		return nil
	}

	var diags hcl.Diagnostics
	var known []selection // selections by columns that are known at plan time
	for _, sel := range e.on {
		col := column(f.Rows, sel.Column)
		if col == nil || !f.Measured && !slices.Contains(f.Info.Params, sel.Column) {
			continue // other columns of planned cases differ from those of the rows
		}

		known = append(known, sel)
		have := distinctTexts(col)

		var absent []string
		for _, v := range sel.Values {
			if !slices.Contains(have, v) {
				absent = append(absent, v)
			}
		}

		switch {
		case len(absent) == 0:
		case len(absent) == len(sel.Values):
			return append(diags, e.vain(f, selectionText([]selection{sel}), hint(sel.Column, absent, have)))
		default:
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Value that nothing has",
				Subject: e.onAt.Ptr(),
				Detail: fmt.Sprintf("%s has %s.%s", nothing(f),
					selectionText([]selection{{Column: sel.Column, Values: absent}}), hint(sel.Column, absent, have))})
		}
	}

	if len(known) < 2 {
		return diags
	}

	keep, err := matching(f.Rows, known)
	if err == nil && !slices.Contains(keep, true) {
		diags = append(diags, e.vain(f, selectionText(known), " Each of them occurs, and never with the others."))
	}

	return diags
}

// vain returns the diagnostic for a check that will have nothing to judge.
func (e entry) vain(f *stage.Forecast, what, hint string) *hcl.Diagnostic {
	d := &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Selection of nothing", Subject: e.onAt.Ptr(),
		Detail: fmt.Sprintf("%s has %s.%s", nothing(f), what, hint)}
	counts, accept := e.kind == "coverage", "min_judged = 0"
	if counts {
		accept = "severity = \"warn\""
	}

	sure := counts || !slices.Contains(countingChecks, e.kind) && e.minJudged > 0
	if sure && e.severity == SeverityFail {
		d.Severity = hcl.DiagError
		d.Detail += fmt.Sprintf(" The check would have nothing to judge, and the gate would fail after all was measured. If that may be, %s accepts it.", accept)
	}

	return d
}

// nothing returns the subject of a message about rows that a forecast lacks.
func nothing(f *stage.Forecast) string {
	if f.Measured {
		return "No row"
	}
	return "No planned case"
}

// hint lists the values of a column and suggests the closest match.
func hint(name string, absent, have []string) string {
	const most = 8
	text := fmt.Sprintf(" %s has %s", name, strings.Join(have[:min(len(have), most)], ", "))
	if more := len(have) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}

	text += "."
	for _, v := range absent {
		if near := textutil.DidYouMean(v, have); near != "" {
			return text + near
		}
	}

	return text
}

// distinctTexts returns the distinct values of a column in order of appearance.
func distinctTexts(col arrow.Array) []string {
	var out []string
	seen := map[string]bool{}
	for i := range col.Len() {
		if text := table.Text(col, i); !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}

	return out
}
