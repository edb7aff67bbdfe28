package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"aicplan/engine/checkpoint"
	"aicplan/stages/report/model"
)

// EventType is the type of the event by which a report stage leaves its
// Statement, in the field "statement".
const EventType = "report"

// Statement is what a report's author adds to the data.
type Statement struct {
	Title    string     `json:"title,omitempty"`
	Summary  string     `json:"summary,omitempty"`
	Impact   string     `json:"impact,omitempty"`
	Risks    []string   `json:"risks,omitempty"`
	Changes  []string   `json:"changes,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
	// References are the addresses of stages to compare with.
	References []string `json:"references,omitempty"`
	// Inputs are the addresses of the stages that the report describes. Events of
	// before have none.
	Inputs []string `json:"inputs,omitempty"`
}

// Evidence is what the author did outside the run.
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
		// Of those that describe the whole run, the one that also tells of bad ends.
		if !s.Is.Follows || !s.Is.Always || !s.Reused {
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
			Config Statement         `json:"config"`
			Inputs map[string]string `json:"inputs"` // by name and address
		}
		if err := json.Unmarshal(rec.Inputs, &inputs); err != nil {
			return Statement{}, fmt.Errorf("record of %s: %w", s.Address, err)
		}
		inputs.Config.Inputs = described(inputs.Inputs)
		return inputs.Config, nil
	}
	return Statement{}, nil
}

// described are the addresses of a report's inputs, in their order, from the
// names that its key has for them: "inputs[0] gate.gemm".
func described(inputs map[string]string) []string {
	type input struct {
		at      int
		address string
	}
	var found []input
	for name := range inputs {
		var in input
		if n, err := fmt.Sscanf(name, "inputs[%d] %s", &in.at, &in.address); err == nil && n == 2 {
			found = append(found, in)
		}
	}
	slices.SortFunc(found, func(a, b input) int { return cmp.Compare(a.at, b.at) })
	var out []string
	for _, in := range found {
		out = append(out, in.address)
	}
	return out
}
