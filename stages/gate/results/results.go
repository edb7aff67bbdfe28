// Package results formats the results of gates as text, JSON, Markdown, JUnit XML and GitHub Actions
// annotations.
package results

import (
	"cmp"
	"encoding/json"
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

// Results returns the checks, or the failure of a stage that has none.
func (g Group) Results() []stage.CheckResult {
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
		for _, r := range g.Results() {
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

// clean removes characters that XML 1.0 does not allow.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// details returns the lines below a result's message.
func details(r stage.CheckResult) string {
	var sb strings.Builder
	if r.Value != "" || r.Limit != "" {
		fmt.Fprintf(&sb, "found %s, asked %s\n", cmp.Or(r.Value, "-"), cmp.Or(r.Limit, "-"))
	}

	for _, row := range r.Rows {
		fmt.Fprintf(&sb, "  %s\n", row)
	}

	if r.Fix != "" {
		fmt.Fprintf(&sb, "%s\n", r.Fix)
	}
	return sb.String()
}
