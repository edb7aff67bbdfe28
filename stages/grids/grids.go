// Package grids is the stage kind "grid": it expands axes and rows to cases
// when the plan is made. The block language is described in engine/grid.
package grids

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
)

// Kind describes the stage kind.
func Kind() stage.Kind {
	return stage.Kind{
		Name:      "grid",
		Class:     stage.Source,
		Version:   1,
		Summary:   "expands axes and rows to the cases of one op",
		BareNames: true,
		New:       func() stage.Stage { return &Stage{} },
	}
}

// Stage is one grid block. The cases are expanded once, at the first call that
// needs them; the methods are safe for concurrent use after DecodeBody.
type Stage struct {
	Spec  *grid.Spec
	once  sync.Once
	cases *grid.Cases
	diags hcl.Diagnostics
	// declared is the table of the rows if the plan declares it. Check sets it.
	declared *catalog.Declaration
}

var (
	_ stage.BodyDecoder = (*Stage)(nil)
	_ stage.Planner     = (*Stage)(nil)
)

// DecodeBody implements stage.BodyDecoder.
func (s *Stage) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	spec, diags := grid.Decode(body, eval, partOf)
	s.Spec = spec
	return diags
}

// partOf finds the part that an element of include refers to.
func partOf(v cty.Value) (*grid.Part, error) {
	p, err := stage.PartOf(v)
	if err != nil {
		return nil, err
	}
	return &grid.Part{Name: p.Address, Body: p.Body, Eval: p.Eval, Range: p.Range}, nil
}

// Check implements stage.Stage. An unknown table may be the plan's own. A name that almost equals a known one
// is probably a mistake: the rows would have no declared columns, key and words.
func (s *Stage) Check(cc *stage.CheckContext) hcl.Diagnostics {
	s.Spec.Op = cmp.Or(s.Spec.Op, cc.Name)
	if s.declared = cc.Tables.DeclaredFor(s.Spec.Perf, s.Spec.Op); s.declared != nil {
		s.Spec.Perf = s.declared.Name
	}
	near := cc.Tables.Suggest(s.Spec.Perf)
	if _, known := cc.Tables.Lookup(s.Spec.Perf); known || len(near) == 0 {
		return nil
	}

	return stage.WarningAt(cc.Range, "Unknown perf table",
		"perf_table %q is not known. Did you mean %q? As it is, the rows are written with the grid's own columns.",
		s.Spec.Perf, near[0])
}

// Inputs implements stage.Stage: a grid reads no data.
func (s *Stage) Inputs() []stage.Input { return nil }

// Cases expands the grid.
func (s *Stage) Cases() (*grid.Cases, hcl.Diagnostics) {
	s.once.Do(func() {
		s.cases, s.diags = grid.Expand(s.Spec)
	})
	return s.cases, s.diags
}

// Values implements stage.Valuer. The result of the expansion identifies the
// data of a grid, so another way to write the same cases changes no key.
func (s *Stage) Values() map[string]any {
	c, _ := s.Cases()
	if c == nil {
		return nil
	}

	values := map[string]any{
		"op": s.Spec.Op, "columns": c.Columns(), "cases": c.Len(), "rows": c.Rows(),
		"digest": c.Digest(), // of case ids in order and their sweep points
	}
	if s.Spec.Perf != "" {
		values["perf_table"] = s.Spec.Perf
	}
	if s.declared != nil {
		values["declared_table"] = string(s.declared.Encode())
	}

	if sweep := c.SweepColumns(); len(sweep) > 0 {
		values["sweep"] = sweep
	}

	var constants []string
	for _, k := range s.Spec.Constants {
		constants = append(constants, k.Name+"="+k.JSON())
	}
	if constants != nil {
		values["constants"] = constants
	}

	return values
}

// Plan implements stage.Planner. The plan always contains the full set of cases, because collect selects.
// Private is the *grid.Cases; see CasesOf.
func (s *Stage) Plan(ctx context.Context, _ *stage.PlanContext) (*stage.Plan, hcl.Diagnostics) {
	c, diags := s.Cases()
	if c == nil {
		return nil, diags
	}
	return &stage.Plan{
		Action:    stage.ActionReady,
		Reason:    textutil.Counted(c.Len(), "case") + ", known from the plan",
		Data:      s.dataset(c),
		Waterfall: waterfall(c),
		Private:   c,
	}, diags
}

// CasesOf returns the expanded cases of a grid's plan, with the sweep points of each (grid.Cases.Sweep). It
// returns nil if p is not the plan of a grid.
func CasesOf(p *stage.Plan) *grid.Cases {
	if p == nil {
		return nil
	}
	c, _ := p.Private.(*grid.Cases)
	return c
}

// Run implements stage.Stage: it hands on what the plan has.
func (s *Stage) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	c := CasesOf(rc.Plan)
	if c == nil {
		var diags hcl.Diagnostics
		if c, diags = s.Cases(); c == nil {
			return nil, fmt.Errorf("expand %s: %w", rc.Address, diags)
		}
	}

	return &stage.Outcome{
		Status: stage.StatusOK,
		Data:   s.dataset(c),
		Counts: stage.Counts{Planned: c.Len(), Rows: c.Len()},
	}, nil
}

func (s *Stage) dataset(c *grid.Cases) *stage.Dataset {
	return &stage.Dataset{
		Planned: c.Record(),
		Info:    stage.Info{Op: s.Spec.Op, Perf: s.Spec.Perf, Declared: s.declared, Params: c.Columns()},
	}
}

func waterfall(c *grid.Cases) *stage.Waterfall {
	w := c.Waterfall
	out := &stage.Waterfall{Declared: w.Declared, Duplicates: w.Duplicates, Cases: w.Cases, Rows: w.Rows,
		Table: c.Record()}
	for _, f := range w.Filters {
		out.Filters = append(out.Filters, stage.FilterCount{Name: f.Name, Reason: f.Reason, Dropped: f.Dropped,
			Note: f.Note, Samples: f.Samples})
	}

	for _, a := range c.Spec.Dims() {
		name := a.Name
		if a.Set != "" {
			name = a.Set + "." + name
		}
		out.Axes = append(out.Axes, stage.AxisSize{Name: name, Size: a.Size()})
	}

	return out
}
