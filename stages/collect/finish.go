package collect

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

func (r *running) stopped() bool {
	select {
	case <-r.rc.Stop:
		return true
	default:
		return false
	}
}

// giveUp marks open cases as interrupted if the run stops before a worker is up.
func (r *running) giveUp() error {
	if r.env == nil {
		return context.Canceled
	}
	for i := range r.job.units {
		if u := &r.job.units[i]; u.state == open {
			r.job.skip(u, "interrupted", interruptedReason)
		}
	}
	return nil
}

const interruptedReason = "the run was interrupted before it was tried"

// needs returns the outcome of a stage whose runtime is not available here.
func (r *running) needs(why string) *stage.Outcome {
	return &stage.Outcome{
		Status: stage.StatusNeeds, Message: "needs " + r.runtime.Address + ": " + firstLine(why), NoReuse: true,
		Counts: stage.Counts{Planned: len(r.job.units)},
	}
}

// finish loads the stored results, checks them, and returns the stage's outcome with its tables.
func (r *running) finish() (*stage.Outcome, error) {
	if r.part == nil && r.reusesOtherCode() {
		r.remember() // a plan that is made without the op's files assumes the code of these rows
	}

	if err := r.job.load(r.journal); err != nil {
		return nil, err
	}
	if err := r.job.check(); err != nil {
		return nil, err
	}

	plannedRec := r.job.cases.PointRecord()
	rec, mixed := r.job.measurements(plannedRec, r.env)
	for _, name := range mixed {
		r.rc.Events.Message(r.rc.Address, "warn",
			fmt.Sprintf("the column %s has values of several types, such as numbers and text, or integers beyond 2^53 and fractions, and is kept as text",
				name))
	}

	ledger, err := r.job.ledger(r.rules)
	if err != nil {
		return nil, err
	}

	n := r.job.tally()
	if n.Planned != n.Measured+n.Failed+n.Skipped {
		return nil, fmt.Errorf("internal error: %d planned cases and %d measured, %d failed, %d skipped",
			n.Planned, n.Measured, n.Failed, n.Skipped)
	}

	out := &stage.Outcome{
		Data: &stage.Dataset{Table: rec, Ledger: ledger, Planned: plannedRec, Info: r.info()},
		Values: map[string]cty.Value{
			"measured": cty.NumberIntVal(int64(n.Measured)), "reused": cty.NumberIntVal(int64(r.reused)),
			"failed": cty.NumberIntVal(int64(n.Failed)), "skipped": cty.NumberIntVal(int64(n.Skipped)),
		},
		Journal: r.journal.Digest(),
		Counts: stage.Counts{Cases: r.job.asked(), Planned: n.Planned, Measured: r.now,
			Reused: n.Measured - r.now, Failed: n.Failed, Skipped: n.Skipped},
	}

	if rec != nil {
		out.Counts.Rows = int(rec.NumRows())
	}

	out.Status, out.Message = r.verdict(n)
	return out, nil
}

// rank returns 1 if so is true and 0 otherwise. It sorts false before true.
func rank(so bool) int {
	if so {
		return 1
	}
	return 0
}
