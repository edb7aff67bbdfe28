package collect

import (
	"fmt"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// epochs tell withdrawals apart in the journal.
const (
	epochReplace = "replace"
	epochRetry   = "retry"
)

// reuse closes the units that the journal has results for. When opts asks to measure
// them again only those count that were measured in that epoch. A failed one
// stays failed unless retry is "failed", and it has not failed in that epoch
// already. What the breaker concluded stays so, too: a group that has failed
// after times and was never measured is not tried further, unless retry is
// "tripped", which tries all of such groups again.
func (j *job) reuse(journal *checkpoint.Journal, opts stage.Options, after int) error {
	retry := opts.Retry
	if retry != "" {
		j.retrying = j.epochOf(journal)
	}
	for i := range j.units {
		u := &j.units[i]
		if u.barred() != "" && u.class() != "not_selected" {
			// What somebody measured all the same is there.
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

// epochOf is the token of a retry that has begun and not ended: one of its cases
// is still open. It is "" without any.
func (j *job) epochOf(journal *checkpoint.Journal) string {
	for i := range j.units {
		if token, open := journal.Epoch(j.id(i)); open && checkpoint.InEpoch(token, epochRetry) {
			return token
		}
	}
	return ""
}

// retried says whether a case was tried in the retry that goes on.
func (j *job) retried(journal *checkpoint.Journal, id string) bool {
	token, _ := journal.Epoch(id)
	return j.retrying != "" && token == j.retrying
}

// withdraw makes durable, before anything is measured, that what the journal has
// of the open units counts no more, where they are measured or tried again: a run
// that ends halfway leaves no old rows among the new ones, and the next one goes
// on.
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

// past is what earlier runs left of a group, in tasks.
type past struct {
	measured, failed int
	lastFailed       int // a unit
	open             bool
}

// record counts the settled tasks by group.
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

// trip skips what is open of a group, or opens what has failed.
func (j *job) trip(name string, g *past, journal *checkpoint.Journal, again bool) error {
	reason := ""
	if !again && g.open {
		e, ok, err := journal.Lookup(j.id(g.lastFailed))
		if err != nil {
			return err
		}
		if ok {
			d, err := decodeEntry(e)
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
			// An earlier retry withdrew what the case came to, and did not get to it.
			if _, withdrawn := journal.Epoch(j.id(i)); withdrawn {
				j.wasTried(u)
			}
		case !again && u.state == open:
			j.skip(u, "tripped", reason)
		}
	}
	return nil
}

// wasTried keeps that a case was tried before: others of its group come first.
func (j *job) wasTried(u *unit) {
	if j.tried == nil {
		j.tried = map[int]bool{}
	}
	j.tried[int(u.task)] = true
}

// tripText says why a group is not tried any further.
func tripText(group string, failures int, last string) string {
	return fmt.Sprintf("%s failed %d times from its first case on; the last time: %s", groupText(group), failures, last)
}

// forget opens again what reuse settled, for another journal.
func (j *job) forget() {
	for i := range j.units {
		if u := &j.units[i]; u.state != skipped || u.class() == "tripped" {
			j.settle(u, open)
			if u.barred() != "" {
				j.close(u)
			}
		}
	}
}
