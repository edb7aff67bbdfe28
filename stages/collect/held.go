package collect

import (
	"fmt"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// reuse settles the units that the journal answers; none when opts asks to
// measure them again. A failed one stays failed unless retry is "failed". What the breaker concluded stays so, too: a group
// that has failed after times and was never measured is not tried further,
// unless retry is "tripped", which tries all of such groups again.
func (j *job) reuse(journal *checkpoint.Journal, opts stage.Options, after int) error {
	if opts.Again {
		return nil // what the journal has is replaced by what is measured now
	}
	retry := opts.Retry
	for i := range j.units {
		u := &j.units[i]
		if u.barred != "" && u.class != "not_selected" {
			// What somebody measured all the same is there.
			if kind, ok := journal.Has(u.id); ok && kind == checkpoint.Measured {
				u.state, u.class, u.reason = measured, "", ""
			}
			continue
		}
		if u.state != open {
			continue
		}
		switch kind, ok := journal.Has(u.id); {
		case !ok:
		case kind == checkpoint.Measured:
			u.state = measured
		case retry != "failed":
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
		g := out[t.group]
		if g == nil {
			g = &past{}
			out[t.group] = g
		}
		any := map[state]bool{}
		for k := t.first; k < t.first+t.n; k++ {
			any[j.units[k].state] = true
			if j.units[k].state == failed {
				g.lastFailed = k
			}
		}
		switch {
		case any[measured]:
			g.measured++
		case any[failed]:
			g.failed++
		}
		g.open = g.open || any[open]
	}
	return out
}

// trip skips what is open of a group, or opens what has failed.
func (j *job) trip(name string, g *past, journal *checkpoint.Journal, again bool) error {
	reason := ""
	if !again && g.open {
		e, ok, err := journal.Lookup(j.units[g.lastFailed].id)
		if err != nil {
			return err
		}
		if ok {
			d, err := decodeEntry(e.Payload)
			if err != nil {
				return err
			}
			if d.Failure == nil {
				return fmt.Errorf("case %s failed before, and the journal does not say how", e.ID)
			}
			reason = tripText(name, g.failed, firstLine(d.Failure.Message))
		}
	}
	for i := range j.units {
		u := &j.units[i]
		if j.tasks[u.task].group != name {
			continue
		}
		switch {
		case again && u.state == failed:
			u.state = open
		case !again && u.state == open:
			u.state, u.class, u.reason = skipped, "tripped", reason
		}
	}
	return nil
}

// tripText says why a group is not tried any further.
func tripText(group string, failures int, last string) string {
	return fmt.Sprintf("%s failed %d times from its first case on; the last time: %s", groupText(group), failures, last)
}

// forget opens again what reuse settled, for another journal.
func (j *job) forget() {
	for i := range j.units {
		if u := &j.units[i]; u.state != skipped || u.class == "tripped" {
			u.state, u.class, u.reason = open, "", ""
			if u.barred != "" {
				u.close()
			}
		}
	}
}
