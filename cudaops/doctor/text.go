package doctor

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"text/template"

	"aicplan/sink/base/textutil"
)

// Summary returns the outcome in one line.
func (r *Report) Summary() string {
	failed, warned := 0, 0
	for _, f := range r.Findings {
		switch f.Result {
		case Fail:
			failed++
		case Warn:
			warned++
		}
	}

	switch {
	case len(r.GPUs) == 0:
		return "No GPU can be measured on this machine."
	case !r.OK():
		return fmt.Sprintf("The GPUs (%d) cannot be measured as they are: %s failed, %s.", len(r.GPUs),
			textutil.Counted(failed, "check"), textutil.Counted(warned, "warning"))
	}
	return fmt.Sprintf("The GPUs (%d) can be measured: %s.", len(r.GPUs), textutil.Counted(warned, "warning"))
}

//go:embed report.txt
var reportText string

// Text writes the details of the report as text for people. If verbose is set, it lists the places where
// missing libraries were searched.
func (r *Report) Text(w io.Writer, verbose bool) error {
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	err := textutil.Fill(aligned, reportText, r, template.FuncMap{
		"verbose": func() bool { return verbose },
		"gib":     func(bytes int64) float64 { return float64(bytes) / (1 << 30) },
		"mode":    func(on bool) string { return map[bool]string{false: "off", true: "on"}[on] },
		"found": func(message string) bool {
			return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Message == message })
		},
	})
	if err != nil {
		return err
	}
	return aligned.Flush()
}
