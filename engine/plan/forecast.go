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

// checkTargets returns an error for stages that would replace each other's table. Stages that merge tables are
// allowed if one depends on the other, because the order is then known.
func (p *Plan) checkTargets(in stage.Forecasts) hcl.Diagnostics {
	var diags hcl.Diagnostics
	type target struct {
		*Stage
		shared bool
	}

	by := map[string][]target{}
	for _, s := range p.Stages {
		w, ok := s.Config.(stage.FileWriter)
		if !ok || s.Deferred {
			continue
		}
		name, shared := w.Target(in)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(by[name], func(other target) bool {
			ordered := p.Graph.Behind(other.Address())[s.Address()] || p.Graph.Behind(s.Address())[other.Address()]
			return !ordered || !shared || !other.shared
		})
		by[name] = append(by[name], target{s, shared})
		if i < 0 {
			continue
		}

		other := by[name][i]
		how := "Give each its own dir, or join them: one export with both as its input, or behind one dedupe. If each is " +
			"to add its rows to a table, set merge = true in both, and let one wait for the other with depends_on: its " +
			"rows then win."
		if shared && other.shared {
			how = "Both merge, and if they have rows of one key the last one wins: let that one wait for the other with " +
				"depends_on."
		}
		diags = append(diags, s.errorf("Table written twice", "%s writes %s, and so does %s (%s:%d). %s", s.Address(), name,
			other.Address(), other.Instance.Range.Filename, other.Instance.Range.Start.Line, how)...)
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
