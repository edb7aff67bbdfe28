package run

import "aicplan/engine/stage"

// Exit codes, the same for every verb.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitWork        = 2 // plan --detailed-exitcode: apply would change something
	ExitPartial     = 3
	ExitGate        = 4
	ExitPreflight   = 5
	ExitLocked      = 11
	ExitInterrupted = 130
)

// severity lists the statuses of failed stages with their exit codes, worst first.
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

// ExitCode returns the code of the worst stage. If all failed stages lacked a device or folder that another process
// uses, it is ExitLocked.
func (r *Applied) ExitCode() int {
	if r.Diags.HasErrors() {
		return ExitError
	}
	for _, s := range severity {
		if r.Detached && s.status == stage.StatusInterrupted {
			continue // only jobs are missing
		}
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
