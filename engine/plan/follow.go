package plan

import (
	"encoding/json"
	"slices"

	"aicplan/engine/checkpoint"
	"aicplan/engine/dag"
	"aicplan/engine/stage"
)

// orderFollowers lets stages that tell of tables wait for what is made of these
// tables, such as the files of exports: they would else tell of as much as there
// was by chance. Only the order changes, not what a selection is made of. deps
// are the edges that the plan itself has; new ones are added.
func (p *Plan) orderFollowers(deps map[string][]string) error {
	var followers []string
	for _, s := range p.Stages {
		if s.Instance.Kind.Class.Follows() {
			followers = append(followers, s.Address())
		}
	}
	// What waits for a follower is left out, for all of them: no cycle can arise.
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
	g, err := dag.Build(p.Config.Addresses(), deps)
	if err != nil {
		return err
	}
	p.Graph = g
	sorted := p.Stages[:0:0]
	for _, addr := range g.Order() {
		if s := p.byAddr[addr]; s != nil {
			sorted = append(sorted, s)
		}
	}
	p.Stages = sorted
	return nil
}

// runsBefore names the first stage before s that is going to run, or "".
// Guards run only when something behind them does, which then counts.
func (p *Plan) runsBefore(s *Stage) string {
	before := p.Graph.Closure(s.Address())
	for _, b := range p.Stages {
		if b == s || !before[b.Address()] || b.Instance.Kind.Class == stage.Guard {
			continue
		}
		switch b.Action {
		case stage.ActionReuse, stage.ActionReady, stage.ActionNeeds:
		default:
			return b.Address()
		}
	}
	return ""
}

// followed is the part of a following stage's key that covers the stages
// before it: how they ended, by their records, and what the stage itself
// adds. When and how long they ran does not count.
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
