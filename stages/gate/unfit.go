package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/sink/phrase"
	"aicplan/sink/rowkey"
)

// unmatched finds an "on" that fits none of the rows that the check is going to
// get, where the plan knows the column: rows of a case have the case's values.
// Where the gate is then sure to fail, that is an error before the night of
// measuring. A single value of a list that nothing has is a warning.
func (e entry) unmatched(f *stage.Forecast) hcl.Diagnostics {
	if len(e.on) == 0 || f == nil || f.Rows == nil || f.Rows.NumRows() == 0 {
		return nil
	}
	var diags hcl.Diagnostics
	var known []selection // of columns that the plan knows
	for _, sel := range e.on {
		col := column(f.Rows, sel.Column)
		if col == nil || !f.Measured && !slices.Contains(f.Info.Params, sel.Column) {
			continue // the status of a planned case is not that of its row
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
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Value that nothing has", Subject: e.onAt.Ptr(),
				Detail: fmt.Sprintf("%s has %s.%s", nothing(f), selectionText([]selection{{Column: sel.Column, Values: absent}}), hint(sel.Column, absent, have))})
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

// vain is the diagnostic of a check that is not going to get anything to judge.
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

// nothing begins a sentence on what the rows of a forecast lack.
func nothing(f *stage.Forecast) string {
	if f.Measured {
		return "No row"
	}
	return "No planned case"
}

// hint says what a column has, and what was likely meant.
func hint(name string, absent, have []string) string {
	const most = 8
	text := fmt.Sprintf(" %s has %s", name, strings.Join(have[:min(len(have), most)], ", "))
	if more := len(have) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	text += "."
	for _, v := range absent {
		if near := phrase.DidYouMean(v, have); near != "" {
			return text + near
		}
	}
	return text
}

// distinctTexts are the values of a column, each once, in order of appearance.
func distinctTexts(col arrow.Array) []string {
	var out []string
	seen := map[string]bool{}
	for i := range col.Len() {
		if text := rowkey.Text(col, i); !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return out
}
