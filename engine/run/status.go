package run

import "aicplan/engine/stage"

// Exit codes, the same for every verb.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitWork        = 2 // plan --detailed-exitcode: there is work
	ExitPartial     = 3
	ExitGate        = 4
	ExitPreflight   = 5
	ExitLocked      = 11
	ExitInterrupted = 130
)

// severity orders the ways a run can end, worst first.
var severity = []struct {
	status stage.Status
	code   int
}{
	{stage.StatusInterrupted, ExitInterrupted},
	{stage.StatusFailed, ExitError},
	{stage.StatusPreflight, ExitPreflight},
	{stage.StatusGateFailed, ExitGate},
	{stage.StatusNeeds, ExitPartial},
	{stage.StatusPartial, ExitPartial},
}

// ExitCode is the code of the worst stage. A run in which stages failed only for
// want of what others hold ends as one that finds its state folder in use.
func (r *Applied) ExitCode() int {
	if r.Diags.HasErrors() {
		return ExitError
	}
	for _, s := range severity {
		code, found := s.code, false
		for _, st := range r.Stages {
			if st.Status != s.status {
				continue
			}
			if !st.Busy {
				return s.code
			}
			code, found = ExitLocked, true
		}
		if found {
			return code
		}
	}
	return ExitOK
}
