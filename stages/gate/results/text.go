package results

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

//go:embed checks.md
var markdown string

// WriteMarkdown writes a table of all checks, followed by the offending rows of failed checks and
// warnings.
func WriteMarkdown(w io.Writer, groups []Group) error {
	return textutil.Fill(w, markdown, struct {
		Counts
		Groups []Group
		Most   int
	}{Count(groups), groups, stage.MaxCheckRows})
}

// WriteAnnotations writes GitHub Actions workflow commands: one error or warning per failed check, at
// its position in the plan.
func WriteAnnotations(w io.Writer, groups []Group) error {
	for _, g := range groups {
		for _, r := range g.results() {
			level := ""
			switch r.Result {
			case "fail":
				level = "error"
			case "warn":
				level = "warning"
			default:
				continue
			}

			place := ""
			if file, line, ok := cutPos(r.Pos); ok {
				place = "file=" + property(file) + ",line=" + property(line) + ","
			}

			text := r.Message
			if d := details(r); d != "" {
				text += "\n" + d
			}

			if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", level, place, property(g.Address+" "+r.Name),
				data(text)); err != nil {
				return err
			}
		}
	}

	return nil
}

// data and property escape text for workflow commands.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(strings.TrimRight(s, "\n"))
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// GitHub reports whether the environment is a GitHub Actions job, and returns the path of its step
// summary, "" if unset.
func GitHub(getenv func(string) string) (inside bool, summary string) {
	return getenv("GITHUB_ACTIONS") == "true", getenv("GITHUB_STEP_SUMMARY")
}

// AppendSummary appends the Markdown table to a step summary file.
func AppendSummary(path string, groups []Group) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(WriteMarkdown(&textutil.Writer{W: f}, groups), f.Close())
}
