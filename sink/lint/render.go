package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"aicplan/sink/base/textutil"
)

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteText writes the findings by rule, with at most rows offending rows of
// each.
func (r *Report) WriteText(w io.Writer, rows int) error {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s: %d files, %d rows\n", r.Root, r.Files, r.Rows)
	last := ""
	for _, f := range r.Findings {
		if f.Rule != last {
			last = f.Rule
			rule, _ := ruleOf(f.Rule)
			fmt.Fprintf(&sb, "\n%s %s: %s %s\n", f.Severity, f.Rule, textutil.Count(int64(r.Counts[f.Rule])), rule.Summary)
		}
		fmt.Fprintf(&sb, "  %s: %s\n", f.Path, f.Message)
		for _, row := range f.Rows[:min(len(f.Rows), rows)] {
			if !strings.Contains(f.Message, row) { // the message contains it
				fmt.Fprintf(&sb, "      %s\n", row)
			}
		}
	}
	sb.WriteString("\n" + r.Summary() + "\n")
	_, err := io.WriteString(w, sb.String())
	return err
}

// Summary is the outcome as one line.
func (r *Report) Summary() string {
	if len(r.Findings) == 0 {
		return "nothing found"
	}
	s := textutil.Counted(len(r.Findings), "finding")
	if len(r.Exceeded) == 0 {
		return s + ", all within what is allowed"
	}
	s += "; more than allowed of " + strings.Join(r.Exceeded, ", ")
	if !r.Failed() {
		s += " (warnings, which fail nothing)"
	}
	return s
}
