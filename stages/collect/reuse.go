package collect

import (
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect/policy"
	"aicplan/stages/collect/rows"
)

// Prefixes of the epoch tokens of retries, and of cases that failed because a disk was full.
const (
	epochRetry = "retry"
	epochDisk  = "disk"
)

// reuse closes the units that have results in the journal. If opts.Again is set, only results of the current epoch
// count. A failed unit stays failed unless a full disk was the cause, or retry is "failed" and the unit was not already
// tried in this retry. A group that failed at least after times and was never measured stays tripped, unless retry is
// "tripped", which opens all such groups again.
func (j *job) reuse(journal *checkpoint.Journal, opts stage.Options, after int) error {
	if opts.Retry != "" {
		j.retrying = j.epochOf(journal)
	}

	for i, u := range j.all() {
		// A measurement counts even if the unit is marked as unsupported.
		barred := u.bar != nil && u.why == u.bar
		if u.state != open && !barred {
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
			u.settle(measured)
		case !barred && (opts.Retry != "failed" || j.retried(journal, i)):
			u.state = failed
		}
	}

	if !j.shared {
		if err := j.openFullDisk(journal); err != nil {
			return err
		}
	}

	if after == 0 || opts.Retry == "failed" {
		return nil
	}
	for no, g := range j.past() {
		if g.Measured > 0 || g.Failed < after {
			continue
		}
		if opts.Retry == "tripped" {
			j.openGroup(no, journal)
		} else if err := j.trip(no, g.Failed, journal); err != nil {
			return err
		}
	}
	return nil
}

// openFullDisk opens the units that failed because a disk was full.
func (j *job) openFullDisk(journal *checkpoint.Journal) error {
	var units []int
	var ids []string
	for i, u := range j.all() {
		if u.state == failed {
			units, ids = append(units, i), append(ids, j.id(i))
		}
	}

	return journal.Read(ids, func(at int, e checkpoint.Entry) error {
		entry, err := rows.Decode(e)
		if err == nil && entry.Failure != nil && policy.FullDisk(entry.Failure) {
			j.units[units[at]].state = open
		}
		return err
	})
}

// epochOf returns the token of a retry that has started and not finished, that is, one of its cases is still open. It
// returns "" if there is none.
func (j *job) epochOf(journal *checkpoint.Journal) string {
	for i := range j.units {
		if token, open := journal.Epoch(j.id(i)); open && checkpoint.InEpoch(token, epochRetry) {
			return token
		}
	}
	return ""
}

// retried reports whether a unit was already tried in the current retry.
func (j *job) retried(journal *checkpoint.Journal, unit int) bool {
	token, _ := journal.Epoch(j.id(unit))
	return j.retrying != "" && token == j.retrying
}

// withdraw records in the journal, before measuring starts, that earlier results of the open units are invalid. It
// does so only for units that are measured again or retried. If the run ends early, no old rows remain among the new
// ones, and the next run continues.
func (j *job) withdraw(journal *checkpoint.Journal, opts stage.Options) error {
	token := j.retrying
	switch {
	case opts.Again:
		token = opts.Epoch
	case opts.Retry == "":
		token = checkpoint.NewEpoch(epochDisk)
	case token == "":
		token = checkpoint.NewEpoch(epochRetry)
	}

	var ids []string
	for i, u := range j.all() {
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

// trip skips the open units of a group.
func (j *job) trip(group, failures int, journal *checkpoint.Journal) error {
	in, last, some := j.inGroup(group), -1, false
	for i, u := range j.all() {
		if in(i) && u.state == failed {
			last = i
		}
		some = some || in(i) && u.state == open
	}

	if !some {
		return nil
	}
	f, err := failureOf(journal, j.id(last))
	if err != nil {
		return err
	}
	j.close("tripped", policy.TripText(j.groups[group], failures, firstLine(f.Failure.Message)), in)
	return nil
}

// failureOf returns the journal entry of a failed unit.
func failureOf(journal *checkpoint.Journal, id string) (*rows.Entry, error) {
	e, _, err := journal.Lookup(id)
	if err != nil {
		return nil, err
	}
	return rows.Decode(e)
}

// openGroup opens the failed units of a group. Cases that never failed are tried before them.
func (j *job) openGroup(group int, journal *checkpoint.Journal) {
	in := j.inGroup(group)
	for i, u := range j.all() {
		if !in(i) {
			continue
		}

		// An earlier retry may have withdrawn the result of an open case.
		_, withdrawn := journal.Epoch(j.id(i))
		if u.state == failed && !j.retried(journal, i) || u.state == open && withdrawn {
			u.state = open
			if j.tried == nil {
				j.tried = map[int]bool{}
			}
			j.tried[int(u.task)] = true
		}
	}
}

// forget reopens the units that reuse closed, before reuse runs with another journal.
func (j *job) forget() {
	for _, u := range j.all() {
		if u.state == skipped && !u.is("tripped") {
			continue
		}
		if u.settle(open); u.bar != nil {
			u.skip(u.bar)
		}
	}
}
