package plan

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// foresee compares the columns that stages read with the columns that their inputs are going to have, before
// anything is measured.
func (p *Plan) foresee() hcl.Diagnostics {
	known := map[string]*stage.Forecast{}
	p.forecasts = known
	var diags hcl.Diagnostics
	for _, s := range p.Stages {
		if s.Config == nil || s.Deferred {
			continue
		}
		diags = append(diags, guarded(s, func() hcl.Diagnostics {
			if s.Plan != nil && s.Plan.Data != nil {
				known[s.Address()] = stage.ForecastOf(s.Plan.Data)
				return nil
			}
			f, ok := s.Config.(stage.Forecaster)
			if !ok {
				return nil
			}
			var diags hcl.Diagnostics
			known[s.Address()], diags = f.Forecast(s.Instance.Range, p.forecast)
			return s.Instance.Locate(diags)
		})...)
	}

	for _, s := range p.Stages {
		if s.Action != stage.ActionReuse {
			s.Warnings = append(p.replaces(s), s.Warnings...)
		}
	}
	return append(diags, p.checkTargets(p.forecast)...)
}

// forecast returns what is known about the table of a stage before it runs.
func (p *Plan) forecast(r *stage.Ref) *stage.Forecast {
	if r == nil {
		return nil
	}
	return p.forecasts[r.Address]
}

// checkTargets returns an error for stages that would replace each other's table.
func (p *Plan) checkTargets(in stage.Forecasts) hcl.Diagnostics {
	var diags hcl.Diagnostics
	by := map[string]*Stage{}
	for _, s := range p.Stages {
		w, ok := s.Config.(stage.FileWriter)
		if !ok || s.Deferred {
			continue
		}
		name := w.Target(in)
		switch other := by[name]; {
		case name == "":
		case other == nil:
			by[name] = s
		default:
			diags = append(diags, s.errorf("Table written twice", "%s writes %s, and so does %s (%s:%d). Give each its own "+
				"dir, or join them: one export with both as its input, or after one dedupe.", s.Address(), name,
				other.Address(), other.Instance.Range.Filename, other.Instance.Range.Start.Line)...)
		}
	}

	return diags
}

// demands returns the columns that later stages require in every row, by stage.
func (p *Plan) demands() map[string][]string {
	out := map[string][]string{}
	for _, s := range p.Stages {
		if len(s.Instance.Kind.Demands) == 0 {
			continue
		}
		for addr := range p.upstreamOf(s) {
			for _, column := range s.Instance.Kind.Demands {
				if !slices.Contains(out[addr], column) {
					out[addr] = append(out[addr], column)
				}
			}
		}
	}

	return out
}

// upstreamOf returns the stages whose rows reach s.
func (p *Plan) upstreamOf(s *Stage) map[string]bool {
	out := map[string]bool{}
	var visit func(*Stage)
	visit = func(s *Stage) {
		if s == nil || s.Config == nil || out[s.Address()] {
			return
		}
		out[s.Address()] = true
		for _, in := range s.Config.Inputs() {
			if in.Ref != nil {
				visit(p.byAddr[in.Ref.Address])
			}
		}
	}

	visit(s)
	return out
}
