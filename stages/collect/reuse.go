package collect

import (
	"fmt"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// Prefixes of epoch tokens. They distinguish withdrawals in the journal.
const (
	epochReplace = "replace"
	epochRetry   = "retry"
)

// reuse closes the units that have results in the journal. If opts.Again is set, only results of the
// current epoch count. A failed unit stays failed unless retry is "failed" and the unit was not already
// tried in this retry. A group that failed at least after times and was never measured stays tripped,
// unless retry is "tripped", which opens all such groups again.
func (j *job) reuse(journal *checkpoint.Journal, opts stage.Options, after int) error {
	retry := opts.Retry
	if retry != "" {
		j.retrying = j.epochOf(journal)
	}

	for i := range j.units {
		u := &j.units[i]
		if u.noKernel() != "" && u.class() != "not_selected" {
			// Use a measurement that exists even though the unit is marked as unsupported.
			if kind, ok := journal.Has(j.id(i)); ok && kind == checkpoint.Measured && !opts.Again {
				j.settle(u, measured)
			}
			continue
		}

		if u.state != open {
			continue
		}

		if opts.Again {
			if token, _ := journal.Epoch(j.id(i)); opts.Epoch == "" || token != opts.Epoch {
				continue
			}
		}

		switch kind, ok := journal.Has(j.id(i)); {
		case !ok:
		case kind == checkpoint.Measured:
			u.state = measured
		case retry != "failed" || j.retried(journal, j.id(i)):
			u.state = failed
		}
	}

	if after == 0 || retry == "failed" {
		return nil
	}

	for name, g := range j.record() {
		if g.measured > 0 || g.failed < after {
			continue
		}
		if err := j.trip(name, g, journal, retry == "tripped"); err != nil {
			return err
		}
	}

	return nil
}

// epochOf returns the token of a retry that has started and not finished, that is, one of its cases is
// still open. It returns "" if there is none.
func (j *job) epochOf(journal *checkpoint.Journal) string {
	for i := range j.units {
		if token, open := journal.Epoch(j.id(i)); open && checkpoint.InEpoch(token, epochRetry) {
			return token
		}
	}
	return ""
}

// retried reports whether a case was already tried in the current retry.
func (j *job) retried(journal *checkpoint.Journal, id string) bool {
	token, _ := journal.Epoch(id)
	return j.retrying != "" && token == j.retrying
}

// withdraw records in the journal, before measuring starts, that earlier results of the open units are
// invalid. It does so only if the units are measured again or retried. If the run ends early, no old
// rows remain among the new ones, and the next run continues.
func (j *job) withdraw(journal *checkpoint.Journal, opts stage.Options) error {
	token := ""
	switch {
	case opts.Again:
		token = opts.Epoch
	case opts.Retry != "" && j.retrying != "":
		token = j.retrying
	case opts.Retry != "":
		token = checkpoint.NewEpoch(epochRetry)
	default:
		return nil
	}

	var ids []string
	for i := range j.units {
		u := &j.units[i]
		if u.state != open {
			continue
		}
		_, has := journal.Has(j.id(i))
		if known, _ := journal.Epoch(j.id(i)); known != token && (opts.Again || has) {
			ids = append(ids, j.id(i))
		}
	}

	if len(ids) == 0 {
		return nil
	}

	return journal.Withdraw(ids, token)
}

// past counts the tasks of a group that earlier runs have finished.
type past struct {
	measured, failed int
	lastFailed       int // index of a unit
	open             bool
}

// record returns the counts of finished tasks by group.
func (j *job) record() map[string]*past {
	out := map[string]*past{}
	for i := range j.tasks {
		t := &j.tasks[i]
		name := j.groups[t.group]
		g := out[name]
		if g == nil {
			g = &past{}
			out[name] = g
		}

		var states [skipped + 1]bool
		for k := int(t.first); k < int(t.first+t.n); k++ {
			states[j.units[k].state] = true
			if j.units[k].state == failed {
				g.lastFailed = k
			}
		}

		switch {
		case states[measured]:
			g.measured++
		case states[failed]:
			g.failed++
		}

		g.open = g.open || states[open]
	}

	return out
}

// trip skips the open units of a group or, if again is true, opens its failed units.
func (j *job) trip(name string, g *past, journal *checkpoint.Journal, again bool) error {
	reason := ""
	if !again && g.open {
		e, ok, err := journal.Lookup(j.id(g.lastFailed))
		if err != nil {
			return err
		}

		if ok {
			d, err := rows.Decode(e)
			if err != nil {
				return err
			}
			reason = tripText(name, g.failed, firstLine(d.Failure.Message))
		}
	}

	for i := range j.units {
		u := &j.units[i]
		if j.group(int(u.task)) != name {
			continue
		}

		switch {
		case again && u.state == failed && !j.retried(journal, j.id(i)):
			u.state = open
			j.wasTried(u)
		case again && u.state == open:
			// An earlier retry withdrew the result of this case and did not measure it.
			if _, withdrawn := journal.Epoch(j.id(i)); withdrawn {
				j.wasTried(u)
			}
		case !again && u.state == open:
			j.skip(u, "tripped", reason)
		}
	}

	return nil
}

// wasTried marks the task of a unit as tried before. Other tasks of its group run first.
func (j *job) wasTried(u *unit) {
	if j.tried == nil {
		j.tried = map[int]bool{}
	}
	j.tried[int(u.task)] = true
}

// tripText returns the reason why a group is not tried any further.
func tripText(group string, failures int, last string) string {
	return fmt.Sprintf("%s failed %d times from its first case on; the last time: %s", groupText(group), failures, last)
}

// forget reopens the units that reuse closed, before reuse runs with another journal.
func (j *job) forget() {
	for i := range j.units {
		if u := &j.units[i]; u.state != skipped || u.class() == "tripped" {
			j.settle(u, open)
			if u.noKernel() != "" {
				j.close(u)
			}
		}
	}
}
