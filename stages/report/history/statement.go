package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// EventType is the type of the event by which a report stage leaves its
// Statement, in the field "statement".
const EventType = "report"

// Statement is the text that a report's author adds to the data.
type Statement struct {
	Title string `json:"title,omitempty"`
	// References are the addresses of stages to compare with.
	References []string `json:"references,omitempty"`
	// Inputs are the addresses of the stages that the report describes.
	Inputs []string `json:"inputs,omitempty"`
}

// statement returns the statement of the run's first report stage: from its event or, if
// it was reused, from the config of its record.
func (p *Past) statement(store *checkpoint.Store) (Statement, error) {
	if p.Statement != nil {
		return *p.Statement, nil
	}

	for _, s := range p.Stages {
		// Of those that describe the whole run, take the one that also covers failed stages.
		if s.Class != stage.Report || !s.Reused {
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
