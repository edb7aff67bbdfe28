package history

import (
	"encoding/json"
	"errors"
	"fmt"

	"aicplan/engine/checkpoint"
	"aicplan/stages/report/model"
)

// EventType is the type of the event by which a report stage leaves its
// Statement, in the field "statement".
const EventType = "report"

// Statement is what a report's author says beside the data.
type Statement struct {
	Title    string     `json:"title,omitempty"`
	Summary  string     `json:"summary,omitempty"`
	Impact   string     `json:"impact,omitempty"`
	Risks    []string   `json:"risks,omitempty"`
	Changes  []string   `json:"changes,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
	// References are the addresses of stages to compare with.
	References []string `json:"references,omitempty"`
}

// Evidence is what the author did beside the run.
type Evidence struct {
	Name    string `json:"name"`
	Command string `json:"command,omitempty"`
	Result  string `json:"result"`
	// Passed is false for evidence against the data.
	Passed *bool `json:"passed,omitempty"`
}

// Apply puts the statement into a report's input.
func (s Statement) Apply(in *model.Input) {
	in.Title, in.Summary, in.Impact, in.Risks, in.Changes = s.Title, s.Summary, s.Impact, s.Risks, s.Changes
	for _, e := range s.Evidence {
		level := model.Good
		if e.Passed != nil && !*e.Passed {
			level = model.Bad
		}
		in.Evidence = append(in.Evidence, model.Evidence{Name: e.Name, Command: e.Command, Result: e.Result, Level: level})
	}
}

// statement is what the run's first report stage said: in its event, or, when
// it was reused, in the config that its record was made from.
func (p *Past) statement(store *checkpoint.Store) (Statement, error) {
	if p.Statement != nil {
		return *p.Statement, nil
	}
	for _, s := range p.Stages {
		if s.Kind != "report" || !s.Reused {
			continue
		}
		rec, err := store.ReadStage(s.Address)
		if errors.Is(err, checkpoint.ErrMissing) || errors.Is(err, checkpoint.ErrCorrupt) {
			continue
		}
		if err != nil {
			return Statement{}, err
		}
		var inputs struct {
			Config Statement `json:"config"`
		}
		if err := json.Unmarshal(rec.Inputs, &inputs); err != nil {
			return Statement{}, fmt.Errorf("record of %s: %w", s.Address, err)
		}
		return inputs.Config, nil
	}
	return Statement{}, nil
}
