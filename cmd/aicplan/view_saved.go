package main

import (
	_ "embed"

	"aicplan/engine/plan"
	"aicplan/sink/base/textutil"
)

//go:embed saved.txt
var savedText string

// viewSaved prints a saved plan for people: its inputs and what it would do.
func (a *app) viewSaved(s *plan.Saved) error {
	if err := textutil.Fill(a.stdout, savedText, s); err != nil {
		return err
	}
	return a.viewSummary(s.Summary, false)
}
