// Package stagetest has a stage kind for tests of the engine: it has a number,
// an input and no behaviour but what the test gives it.
package stagetest

import (
	"context"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// Thing registers the kind "thing".
func Thing() stage.Kind {
	return stage.Kind{
		Name:    "thing",
		Version: 1,
		Summary: "a stage for tests",
		New:     func() stage.Stage { return &Config{} },
	}
}

// Config is a thing block.
type Config struct {
	Value *int      `hcl:"value,optional"`
	Input cty.Value `hcl:"input,optional"`

	// RunFunc is called by Run; nil means an empty outcome.
	RunFunc func(context.Context, *stage.RunContext) (*stage.Outcome, error)
}

// Check implements stage.Stage.
func (c *Config) Check(*stage.CheckContext) hcl.Diagnostics { return nil }

// Inputs implements stage.Stage.
func (c *Config) Inputs() []stage.Input {
	if c.Input == cty.NilVal || c.Input.IsNull() {
		return nil
	}
	ref, err := stage.RefOf(c.Input)
	if err != nil {
		return nil
	}
	return []stage.Input{{Name: "input", Ref: ref}}
}

// Run implements stage.Stage.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	if c.RunFunc == nil {
		return &stage.Outcome{Status: stage.StatusOK}, nil
	}
	return c.RunFunc(ctx, rc)
}
