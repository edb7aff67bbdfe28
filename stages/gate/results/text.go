package results

import (
	"fmt"
	"io"
	"os"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// WriteMarkdown writes a table of all checks, followed by the offending rows of failed checks and
// warnings.
func WriteMarkdown(w io.Writer, groups []Group) error {
	var sb strings.Builder
	c := Count(groups)
	fmt.Fprintf(&sb, "**Gates: %d passed, %d failed, %d warnings, %d not judged**\n\n", c.Passed, c.Failed,
		c.Warned, c.Skipped)
	sb.WriteString("| stage | check | result | found | asked | message |\n|---|---|---|---|---|---|\n")

	for _, g := range groups {
		if len(g.Checks) == 0 {
			fmt.Fprintf(&sb, "| %s | | **%s** | | | %s |\n", textutil.Cell(g.Address), g.Status, textutil.Cell(g.Message))
		}

		for _, r := range g.Checks {
			result := r.Result
			if result == "fail" {
				result = "**fail**"
			}
			fmt.Fprintf(&sb, "| %s | %s | %s | %s | %s | %s |\n", textutil.Cell(g.Address), textutil.Cell(r.Name), result,
				textutil.Cell(r.Value), textutil.Cell(r.Limit), textutil.Cell(r.Message))
		}
	}

	for _, g := range groups {
		for _, r := range g.Checks {
			if r.Result != "fail" && r.Result != "warn" || len(r.Rows) == 0 {
				continue
			}

			rows := fmt.Sprintf("%d rows", len(r.Rows))
			if len(r.Rows) >= stage.MaxCheckRows {
				rows = "the first " + rows
			}

			fmt.Fprintf(
				&sb,
				"\n<details><summary>%s: %s (%s)</summary>\n\n",
				textutil.Cell(g.Address),
				textutil.Cell(r.Name),
				rows,
			)

			for _, row := range r.Rows {
				fmt.Fprintf(&sb, "- %s\n", textutil.Cell(row))
			}

			if r.Fix != "" {
				fmt.Fprintf(&sb, "\nWhat to do: %s\n", textutil.Cell(r.Fix))
			}

			sb.WriteString("\n</details>\n")
		}
	}

	_, err := io.WriteString(w, sb.String())
	return err
}

// WriteAnnotations writes GitHub Actions workflow commands: one error or warning per failed check, at
// its position in the plan. prefix is the plan folder relative to the repository, "" for the root.
func WriteAnnotations(w io.Writer, groups []Group, prefix string) error {
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
				if prefix != "" && !strings.HasPrefix(file, "/") {
					file = strings.TrimSuffix(prefix, "/") + "/" + file
				}
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
func AppendSummary(path string, groups []Group) (err error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()

	return WriteMarkdown(&textutil.Writer{W: f}, groups)
}
