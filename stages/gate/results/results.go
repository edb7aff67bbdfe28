// Package results formats the results of gates as text, JSON, Markdown, JUnit XML and GitHub Actions
// annotations.
package results

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"aicplan/engine/stage"
)

// Group is the checks of one stage.
type Group struct {
	Address string              `json:"address"`
	Status  stage.Status        `json:"status"`
	Message string              `json:"message,omitempty"`
	Seconds float64             `json:"seconds,omitempty"`
	Checks  []stage.CheckResult `json:"checks"`
}

// Of returns the stages that have checks, in the given order. Failed stages without checks are included,
// so that a report does not look better than the run.
func Of(finished []stage.Finished) []Group {
	var out []Group
	for _, f := range finished {
		if f.Outcome == nil {
			continue
		}
		bad := f.Outcome.Status == stage.StatusFailed || f.Outcome.Status == stage.StatusGateFailed ||
			f.Outcome.Status == stage.StatusPreflight
		if len(f.Outcome.Checks) > 0 || bad {
			out = append(out, Group{Address: f.Address, Status: f.Outcome.Status, Message: f.Outcome.Message,
				Seconds: f.Seconds, Checks: f.Outcome.Checks})
		}
	}

	return out
}

// results returns the checks, or the failure of a stage that has none.
func (g Group) results() []stage.CheckResult {
	if len(g.Checks) > 0 {
		return g.Checks
	}
	return []stage.CheckResult{{Name: string(g.Status), Result: "fail", Message: g.Message}}
}

// Counts is the number of checks by result.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Warned  int `json:"warned"`
	Skipped int `json:"skipped"`
}

// Count adds up the results of all groups. A failed group without checks counts as one failure.
func Count(groups []Group) Counts {
	var c Counts
	for _, g := range groups {
		for _, r := range g.results() {
			switch r.Result {
			case "pass":
				c.Passed++
			case "fail":
				c.Failed++
			case "warn":
				c.Warned++
			default:
				c.Skipped++
			}
		}
	}

	return c
}

// WriteJSON writes one object with the counts and the groups.
func WriteJSON(w io.Writer, groups []Group) error {
	if groups == nil {
		groups = []Group{}
	}

	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Counts Counts  `json:"counts"`
		Gates  []Group `json:"gates"`
	}{Count(groups), groups})
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string     `xml:"name,attr"`
	Classname string     `xml:"classname,attr"`
	File      string     `xml:"file,attr,omitempty"`
	Line      string     `xml:"line,attr,omitempty"`
	Failure   *junitNote `xml:"failure,omitempty"`
	Skipped   *junitNote `xml:"skipped,omitempty"`
	SystemOut string     `xml:"system-out,omitempty"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes JUnit XML: one suite per stage, one case per check. JUnit has no warnings, so a
// check that warns passes with its message in system-out.
func WriteJUnit(w io.Writer, groups []Group) error {
	all := junitSuites{Name: "aicplan"}
	for _, g := range groups {
		s := junitSuite{Name: g.Address, Time: fmt.Sprintf("%.3f", g.Seconds)}
		for _, r := range g.results() {
			s.Tests++
			c := junitCase{Name: clean(r.Name), Classname: clean(g.Address), SystemOut: clean(r.Message)}
			if file, line, ok := cutPos(r.Pos); ok {
				c.File, c.Line = file, line
			}

			switch r.Result {
			case "fail":
				s.Failures++
				c.Failure, c.SystemOut = &junitNote{Message: clean(r.Message), Type: "check", Text: clean(details(r))}, ""
			case "skip":
				s.Skipped++
				c.Skipped, c.SystemOut = &junitNote{Message: clean(r.Message)}, ""
			case "warn":
				c.SystemOut = clean("warning: " + r.Message + "\n" + details(r))
			}

			s.Cases = append(s.Cases, c)
		}

		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Skipped += s.Skipped
		all.Suites = append(all.Suites, s)
	}

	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}

	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")

	if err := enc.Encode(all); err != nil {
		return err
	}

	_, err := io.WriteString(w, "\n")
	return err
}

// clean removes characters that XML 1.0 does not allow.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

func cutPos(pos string) (file, line string, ok bool) {
	i := strings.LastIndexByte(pos, ':')
	if i <= 0 {
		return "", "", false
	}
	return pos[:i], pos[i+1:], true
}

// details returns the lines below a result's message.
func details(r stage.CheckResult) string {
	var sb strings.Builder
	if r.Value != "" || r.Limit != "" {
		fmt.Fprintf(&sb, "found %s, asked %s\n", orDash(r.Value), orDash(r.Limit))
	}

	for _, row := range r.Rows {
		fmt.Fprintf(&sb, "  %s\n", row)
	}

	if r.Fix != "" {
		fmt.Fprintf(&sb, "%s\n", r.Fix)
	}
	return sb.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
