package grid

import (
	"fmt"
	"strings"
)

// verdictLines formats a verdict, one statement per line.
func verdictLines(v *Reasons) []string {
	out := append([]string(nil), v.Problems...)
	switch {
	case v.Matching == 0:
	case v.Matching == 1 && v.Cases == 1:
		out = append(out, "kept: case "+v.IDs[0])
	case v.Cases > 0:
		out = append(out, fmt.Sprintf("kept: %d of %d combinations", v.Cases, v.Matching))
	}

	for _, d := range v.Drops {
		line := "dropped by filter " + d.Filter
		if v.Matching > 1 {
			line = fmt.Sprintf("%d of %d dropped by filter %s", d.Dropped, v.Matching, d.Filter)
		}

		line += ": " + d.Reason
		if len(d.Values) > 0 {
			line += " (" + strings.Join(d.Values, ", ") + ")"
		}

		out = append(out, line)
	}

	for _, d := range v.Duplicates {
		line := "duplicate of case " + d.CaseID + ", which has the same " + strings.Join(d.Key, ", ")
		if len(d.Differ) > 0 {
			line += " but " + strings.Join(d.Differ, ", ")
		}
		out = append(out, line)
	}

	if v.Point != nil {
		for _, line := range verdictLines(v.Point) {
			out = append(out, "point "+line)
		}
	}

	return out
}
