package model

import (
	"fmt"

	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

// CheckSummary describes how the checks of a stage ended: "2 of 3 checks pass; not: noise p95". bad is true if
// a check failed, or the stage itself.
func CheckSummary(g results.Group) (text string, bad bool) {
	c := results.Count([]results.Group{g})
	all, pass := c.Passed+c.Failed+c.Warned, "pass"
	if all == 1 {
		pass = "passes"
	}

	text = fmt.Sprintf("%d of %s %s", c.Passed, textutil.Counted(all, "check"), pass)
	if c.Skipped > 0 {
		text += fmt.Sprintf(", %d not judged", c.Skipped)
	}

	var failed []string
	for _, x := range g.Checks {
		if x.Result == "fail" || x.Result == "warn" {
			failed = append(failed, x.Name)
		}
	}

	if len(failed) > 0 {
		text += "; not: " + List(failed, 4)
	}
	return text, c.Failed > 0 || LevelOf(g.Status) == Bad
}
