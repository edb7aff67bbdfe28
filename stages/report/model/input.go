package model

import (
	"aicplan/engine/stage"
	"aicplan/systems"
)

// Input is what reports are made of.
type Input struct {
	Title, Summary, Impact string
	Run                    Run
	// Finished are the stages in run order.
	Finished []stage.Finished
	// Tables are the datasets to describe, in the order in which they are
	// shown.
	Tables []TableInput
	// What the plan's author states.
	Evidence []Evidence
	Risks    []string
	Changes  []string
	// System finds a system by name; nil knows none.
	System func(name string) *systems.Spec
}

// TableInput is one dataset.
type TableInput struct {
	Address string
	Data    *stage.Dataset
	// System overrides the dataset's own; may be nil.
	System *systems.Spec
	// Reference is compared with; may be nil.
	Reference     *stage.Dataset
	ReferenceName string
	// Stale says why the data may not be that of the run; "" when it is.
	Stale string
}
