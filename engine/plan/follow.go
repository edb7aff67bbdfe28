package plan

import (
	"encoding/json"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// runsBefore names the first stage before s that is going to run, or "".
// Guards run only when something behind them does, which then counts.
func (p *Plan) runsBefore(s *Stage) string {
	before := p.Graph.Closure(s.Address())
	for _, b := range p.Stages {
		if b == s || !before[b.Address()] || b.Instance.Kind.Guard {
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
