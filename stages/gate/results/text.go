package results

import (
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

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

//go:embed junit.txt
var junit string

// WriteJUnit writes JUnit XML: one suite per stage, one case per check. JUnit has no warnings, so a
// check that warns passes with its message in system-out.
func WriteJUnit(w io.Writer, groups []Group) error { return textutil.Fill(w, junit, groups, functions) }

//go:embed annotations.txt
var annotations string

// WriteAnnotations writes GitHub Actions workflow commands: one error or warning per failed check, at
// its position in the plan.
func WriteAnnotations(w io.Writer, groups []Group) error {
	return textutil.Fill(w, annotations, groups, functions)
}

// functions are those of the templates. file and place are the parts of a position, the latter its line. data and
// property escape text for workflow commands.
var functions = template.FuncMap{
	"only":    func(g Group) []Group { return []Group{g} },
	"details": details,
	"file":    func(pos string) string { return pos[:max(strings.LastIndexByte(pos, ':'), 0)] },
	"place":   func(pos string) string { return pos[strings.LastIndexByte(pos, ':')+1:] },
	"counts": func(groups []Group) string {
		c := Count(groups)
		tests := c.Passed + c.Failed + c.Warned + c.Skipped
		return fmt.Sprintf(` tests="%d" failures="%d" skipped="%d"`, tests, c.Failed, c.Skipped)
	},
	"xml": func(s string) (string, error) {
		var b strings.Builder
		err := xml.EscapeText(&b, []byte(clean(s)))
		return b.String(), err
	},
	"data": func(s string) string {
		return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(strings.TrimRight(s, "\n"))
	},
	"property": strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace,
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
