package collect

import (
	"encoding/json"
	"fmt"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// A Python function is in no key: a corrected comment must not cost a night.
// Instead every measured case keeps which file it was measured with, and the
// plan says when that is another one by now.

// sourceNow is the file with the op's function.
func (c *Config) sourceNow(gridOp, planDir string) (runtimes.Source, bool) {
	return c.pools.SourceOf(c.runtime, planDir, c.opName(gridOp), c.bind)
}

// sources counts the measured units by the file that they were measured with;
// those that do not know it are in no count. The entries must be loaded.
func (j *job) sources() map[string]int {
	var out map[string]int
	for i := range j.units {
		if u := &j.units[i]; u.state == measured && u.entry.Source != "" {
			if out == nil {
				out = map[string]int{}
			}
			out[u.entry.Source]++
		}
	}
	return out
}

// Review implements stage.Reviewer.
func (c *Config) Review(pc *stage.PlanContext, rec *checkpoint.StageRecord) []string {
	if len(rec.Sources) == 0 {
		return nil
	}
	cases := grids.CasesOf(pc.Upstream(c.grid))
	if cases == nil {
		return nil
	}
	now, ok := c.sourceNow(cases.Spec().Op, pc.PlanDir)
	if !ok {
		return nil
	}
	var n stage.Counts
	if err := json.Unmarshal(rec.Counts, &n); err != nil {
		return nil // of another program; the record answers all the same
	}
	return changedSource(now, rec.Sources, n.Measured+n.Reused, pc.Address)
}

// reviewJournal is Review for cases that the journal answers while others are
// still to be measured, or while there is no record.
func (c *Config) reviewJournal(pc *stage.PlanContext, j *job, journal *checkpoint.Journal) ([]string, error) {
	now, ok := c.sourceNow(j.cases.Spec().Op, pc.PlanDir)
	if !ok {
		return nil, nil
	}
	n, from := 0, map[string]int{}
	for i := range j.units {
		if j.units[i].state != measured {
			continue
		}
		n++
		e, ok, err := journal.Lookup(j.units[i].id)
		if err != nil || !ok {
			return nil, err
		}
		var made struct {
			Source string `json:"source"`
		}
		if err := json.Unmarshal(e.Payload, &made); err != nil {
			return nil, fmt.Errorf("case %s: an entry of the journal cannot be read: %w", e.ID, err)
		}
		if made.Source != "" {
			from[made.Source]++
		}
	}
	return changedSource(now, from, n, pc.Address), nil
}

// changedSource says how many of the measured units come from another state of
// the file than today's; nil where none does.
func changedSource(now runtimes.Source, from map[string]int, measured int, address string) []string {
	changed := 0
	for source, n := range from {
		if source[strings.LastIndexByte(source, ' ')+1:] != now.Digest {
			changed += n
		}
	}
	which := "these rows"
	switch {
	case changed == 0:
		return nil
	case changed < measured:
		which = fmt.Sprintf("%d of these %d rows", changed, measured)
	}
	if strings.ContainsAny(address, `"[ `) {
		address = "'" + address + "'" // as a shell takes it
	}
	return []string{fmt.Sprintf("%s has changed since %s were measured; -replace %s measures them again", now.Name, which, address)}
}
