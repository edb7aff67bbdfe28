package plan

import (
	"encoding/json"
	"slices"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// orderFollowers makes reports and publishes wait for the stages that use the tables they describe, such as
// exports of these tables. Otherwise a report would list the files that happen to exist. Only the order changes,
// not the selection. It adds edges to deps, the edges of the plan, and returns the cycles that they close.
func (p *Plan) orderFollowers(deps map[string][]string) (cycles [][]string) {
	var followers []string
	for _, s := range p.Stages {
		if s.Class().Follows() {
			followers = append(followers, s.Address())
		}
	}
	// Stages that wait for a follower are left out for all followers, so that no cycle can arise.
	behindFollowers := p.Graph.Behind(followers...)
	added := false
	for _, addr := range followers {
		var tables []string
		if p.byAddr[addr].Config == nil {
			continue // deferred
		}
		for _, in := range p.byAddr[addr].Config.Inputs() {
			if !in.Reference {
				tables = append(tables, in.Ref.Address)
			}
		}

		made := p.Graph.Behind(tables...)
		for _, s := range p.Stages {
			if a := s.Address(); made[a] && !behindFollowers[a] && !slices.Contains(deps[addr], a) {
				deps[addr] = append(slices.Clip(deps[addr]), a)
				added = true
			}
		}
	}

	if !added {
		return nil
	}
	g, cycles := newGraph(p.Config.Addresses(), deps)
	if cycles != nil {
		return cycles
	}
	p.Graph = g
	sorted := p.Stages[:0:0]
	for _, addr := range g.order {
		if s := p.byAddr[addr]; s != nil {
			sorted = append(sorted, s)
		}
	}

	p.Stages = sorted
	return nil
}

// runsBefore returns the first dependency of s that is going to run, or "". A guard counts if a stage that it
// guards runs.
func (p *Plan) runsBefore(s *Stage) string {
	before := p.Graph.Closure(s.Address())
	for _, b := range p.Stages {
		if b == s || !before[b.Address()] || b.Class() == stage.Guard {
			continue
		}
		if !b.stays() {
			return b.Address()
		}
	}

	return ""
}

// followed returns the part of a follower's key that describes its dependencies: their results according to their
// records, and the value that the stage adds. Times and durations are left out.
func (p *Plan) followed(s *Stage, own any) any {
	type ended struct {
		Key       string             `json:"key"`
		Status    string             `json:"status"`
		Outputs   checkpoint.Outputs `json:"outputs"`
		Counts    json.RawMessage    `json:"counts,omitempty"`
		Checks    json.RawMessage    `json:"checks,omitempty"`
		Artifacts json.RawMessage    `json:"artifacts,omitempty"`
	}

	before := map[string]ended{}
	for addr := range p.Graph.Closure(s.Address()) {
		if addr == s.Address() || p.byAddr[addr] == nil {
			continue
		}
		if r := p.record(addr); r != nil {
			before[addr] = ended{r.Key, r.Status, r.Outputs, r.Counts, r.Checks, r.Artifacts}
		}
	}

	return map[string]any{"own": own, "before": before}
}
