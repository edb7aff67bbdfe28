package main

import (
	"fmt"
	"strings"

	"aicplan/engine/plan"
)

// viewSaved prints a saved plan for people: its inputs and what it would do.
func (a *app) viewSaved(s *plan.Saved) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Saved plan of %s, made by aicplan %s.\n", s.Path, s.Version)
	line := func(what string, values []string) {
		if len(values) > 0 {
			fmt.Fprintf(&b, "  %s %s\n", what, strings.Join(values, " "))
		}
	}

	for _, v := range s.Vars {
		line("--var", []string{v})
	}

	line("--var-file", s.VarFiles)
	line("environment", s.Environ)
	line("to be given again, being sensitive:", s.Sensitive)
	line("--target", s.Options.Targets)
	line("--exclude", s.Options.Excludes)
	line("--replace", s.Options.Replace)
	if o := s.Options.Stage; o.Limit > 0 || o.Smoke || o.Retry != "" {
		text := ""
		if o.Limit > 0 {
			text += fmt.Sprintf(" --limit %d", o.Limit)
		}

		if o.Smoke {
			text += " --smoke"
		}
		if o.Retry != "" {
			text += " --retry " + o.Retry
		}

		fmt.Fprintf(&b, " %s\n", text)
	}

	b.WriteByte('\n')
	if _, err := fmt.Fprint(a.stdout, b.String()); err != nil {
		return err
	}

	return a.viewSummary(s.Summary, false)
}
