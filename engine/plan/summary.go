package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// Summary describes a plan for users and programs.
type Summary struct {
	// Format is the version of this structure. It grows if a field is removed or changes its meaning.
	Format int            `json:"format_version"`
	Stages []StageSummary `json:"stages"`
	Totals Totals         `json:"totals"`
	// Targets lists what the plan measures on, without repetition.
	Targets []Target `json:"targets,omitempty"`
	// Work is set if apply would run a stage.
	Work bool `json:"work"`
}

// Target is a system and a framework.
type Target struct {
	System    string `json:"system"`
	Framework string `json:"framework,omitempty"`
	// Requires is the version that the runtime requires, such as "==0.24.0".
	Requires string `json:"requires,omitempty"`
}

// StageSummary is one stage of a Summary.
type StageSummary struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Measures is set for stages that measure cases.
	Measures bool `json:"measures,omitempty"`
	// Guard is set for stages that produce no data and are never reused.
	Guard       bool              `json:"guard,omitempty"`
	Description string            `json:"description,omitempty"`
	Action      stage.Action      `json:"action"`
	Reason      string            `json:"reason,omitempty"`
	Grid        *stage.Waterfall  `json:"grid,omitempty"`
	Cases       *stage.CaseCounts `json:"cases,omitempty"`
	// Request is the request of the stage to a cluster.
	Request   *stage.Request `json:"request,omitempty"`
	Notes     []string       `json:"notes,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
	DependsOn []string       `json:"depends_on,omitempty"`
	Key       string         `json:"key,omitempty"`
}

// Totals contains the sums over all stages.
type Totals struct {
	Stages     int   `json:"stages"`
	Grids      int   `json:"grids"`
	Declared   int64 `json:"declared"`
	Dropped    int64 `json:"dropped"`
	Duplicates int64 `json:"duplicates"`
	Cases      int   `json:"cases"` // of all grids
	Collect    int   `json:"collect"`
	// Elsewhere counts the cases whose runtime is missing on this machine.
	Elsewhere int `json:"elsewhere,omitempty"`
	Reuse     int `json:"reuse"`
	Hold      int `json:"hold"`
	LeftOut   int `json:"left_out,omitempty"` // by --limit or --smoke
	// Unsupported counts the cases without a kernel on the device, according to the plan.
	Unsupported int     `json:"unsupported,omitempty"`
	Rows        int     `json:"rows"`
	Seconds     float64 `json:"seconds,omitempty"`
	// Estimated counts the cases to collect that Seconds covers.
	Estimated int `json:"estimated,omitempty"`
	// GPUHours is Seconds times the number of GPUs in use, in hours. Cost is their price if one is given.
	GPUHours float64 `json:"gpu_hours,omitempty"`
	Cost     float64 `json:"cost,omitempty"`
	// WallSeconds is the time of all cases on WallGPUs GPUs, which are those of the option --gpus or those of a
	// node of the system. Both are 0 if no GPU is needed.
	WallSeconds float64 `json:"wall_seconds,omitempty"`
	WallGPUs    int     `json:"wall_gpus,omitempty"`
	// TooFew is the number of GPUs that cases use together if it is larger than the option --gpus, else 0.
	TooFew int `json:"too_few_gpus_for,omitempty"`
	// ElsewhereSeconds estimates the cases whose runtime is not here.
	ElsewhereSeconds float64 `json:"elsewhere_seconds,omitempty"`
}

// Summarize returns the summary of p.
func Summarize(p *Plan) Summary {
	out := Summary{Format: 1}
	idle := p.Idle()
	for _, s := range p.Stages {
		ss := StageSummary{
			Address:     s.Address(),
			Kind:        s.Instance.Kind.Name,
			Measures:    s.Class() == stage.Measure,
			Guard:       s.Class() == stage.Guard,
			Description: s.Instance.Description,
			Action:      s.Action,
			Reason:      s.Reason,
			DependsOn:   s.Instance.Deps,
			Key:         s.Key,
			Warnings:    s.Warnings,
		}
		if s.Plan != nil {
			ss.Grid, ss.Cases, ss.Notes = s.Plan.Waterfall, s.Plan.Cases, s.Plan.Notes
			ss.Request = s.Plan.Request
		}
		out.Work = out.Work || !idle[s.Address()]
		out.Totals.add(ss, s)
		out.Stages = append(out.Stages, ss)
	}

	out.Targets = p.targets()
	out.Totals.Stages = len(out.Stages)
	out.Totals.Cost = out.Totals.GPUHours * p.Options.Price
	out.Totals.onGPUs(out.Stages, p.Options.GPUs)
	return out
}

// targets returns what the collects of a plan measure on, in the order of the plan.
func (p *Plan) targets() []Target {
	requires := map[string]string{}
	for _, rt := range p.Config.Runtimes() {
		requires[rt.Address] = rt.Requires
	}

	var out []Target
	for _, s := range p.Stages {
		f := p.forecasts[s.Address()]
		if s.Class() != stage.Measure || f == nil || f.Info.System == "" {
			continue
		}
		t := Target{f.Info.System, f.Info.Framework, requires[f.Origin]}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}

	return out
}

// about returns " for SYSTEM, FRAMEWORK VERSION" or "".
func (s Summary) about() string {
	var words []string
	for _, t := range s.Targets {
		for _, w := range []string{t.System, strings.TrimSpace(t.Framework + " " + t.Requires)} {
			if w != "" && !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}

	if len(words) == 0 {
		return ""
	}

	return " for " + strings.Join(words, ", ")
}

// onGPUs returns the time of all stages on a number of GPUs. Zero means the GPUs of a node.
func (t *Totals) onGPUs(stages []StageSummary, gpus int) {
	if t.GPUHours <= 0 {
		return
	}

	for _, s := range stages {
		if s.Cases != nil && t.WallGPUs == 0 {
			t.WallGPUs = s.Cases.NodeGPUs
		}
	}

	if gpus > 0 {
		t.WallGPUs = gpus
	}
	if t.WallGPUs == 0 {
		return
	}

	for _, s := range stages {
		if s.Cases != nil {
			t.WallSeconds += s.Cases.SecondsOn(t.WallGPUs)
			if n := s.Cases.GPUs; gpus > 0 && n > gpus && !s.Cases.PerGPU {
				t.TooFew = max(t.TooFew, n)
			}
		}
	}
}

func (t *Totals) add(ss StageSummary, s *Stage) {
	if w := ss.Grid; w != nil {
		t.Grids++
		t.Declared += w.Declared
		t.Cases += w.Cases
		t.Duplicates += int64(w.Duplicates)
		for _, f := range w.Filters {
			t.Dropped += f.Dropped
		}
	}

	c := ss.Cases
	if c == nil {
		if s.Action == stage.ActionReuse && s.Record != nil && s.Class().OwnsDevices() {
			var stored stage.Counts
			if json.Unmarshal(s.Record.Counts, &stored) == nil {
				t.reuse(stored)
			}
		}
		return
	}

	t.Reuse += c.Reuse
	t.Hold += c.Hold
	t.LeftOut += c.LeftOut
	t.Unsupported += c.Unsupported
	switch {
	case s.Action == stage.ActionNeeds:
		t.Elsewhere += c.Collect
		t.ElsewhereSeconds += c.Seconds
		t.GPUHours += c.GPUHours()
		return
	case c.Seconds > 0:
		t.Seconds += c.Seconds
		t.Estimated += c.Collect
		t.GPUHours += c.GPUHours()
	}
	t.Collect += c.Collect
	t.Rows += c.Rows
}

// reuse adds a stage that is reused as a whole. If a case has several rows, its counts are of rows, and so is the
// number of cases that were left out.
func (t *Totals) reuse(c stage.Counts) {
	rows := c.Measured + c.Reused
	if c.Cases == 0 || rows == 0 {
		t.Reuse += rows
		t.LeftOut += c.Skipped
		return
	}

	t.Reuse += c.Cases
	t.LeftOut += int(math.Round(float64(c.Skipped) * float64(c.Cases) / float64(rows)))
}

// Line returns the summary in one line.
func (s Summary) Line() string {
	t := s.Totals
	if t.Stages == 0 {
		return "Plan: no stage is declared, or none is selected, so there is nothing to do."
	}
	cases := textutil.Counted(t.Cases, "case")
	if t.Collect+t.Reuse+t.Hold+t.Unsupported+t.LeftOut > t.Cases && t.Elsewhere == 0 {
		cases += ", some measured more than once"
	}
	text := fmt.Sprintf(
		"Plan%s: %s; %s (%s to collect, %s reused",
		s.about(),
		textutil.Counted(t.Stages, "stage"),
		cases,
		textutil.Count(t.Collect),
		textutil.Count(t.Reuse),
	)
	for _, others := range []struct {
		n    int
		what string
	}{
		{t.Elsewhere, "elsewhere"}, {t.Hold, "failed before"}, {t.Unsupported, "unsupported"}, {t.LeftOut, "left out"},
	} {
		if others.n > 0 {
			text += fmt.Sprintf(", %s %s", textutil.Count(others.n), others.what)
		}
	}
	text += fmt.Sprintf("), %s dropped by filters", textutil.Count(t.Dropped))
	switch {
	case !s.Work && t.Elsewhere > 0:
		text += "; nothing to do here"
	case !s.Work:
		text += "; nothing to do"
	case t.Collect == 0:
	case t.Estimated == 0:
		text += "; no earlier run to estimate the time from"
	case t.Estimated < t.Collect:
		text += fmt.Sprintf("; about %s for %s of them (estimate), no estimate for the other %s",
			t.time(t.Seconds), textutil.Count(t.Estimated), textutil.Count(t.Collect-t.Estimated))
	default:
		text += fmt.Sprintf("; about %s (estimate)", t.time(t.Seconds))
	}

	switch {
	case t.ElsewhereSeconds > 0 && t.Seconds > 0: // the GPU-hours above include them
		text += fmt.Sprintf("; about %s elsewhere (estimate)", textutil.Duration(t.ElsewhereSeconds))
	case t.ElsewhereSeconds > 0:
		text += fmt.Sprintf("; about %s elsewhere (estimate)", t.time(t.ElsewhereSeconds))
	}

	return text + "."
}

// time describes an estimate: GPU-hours, their cost if a price is known, and wall time; only seconds if no GPU is
// needed.
func (t Totals) time(seconds float64) string {
	if t.GPUHours <= 0 {
		return textutil.Duration(seconds)
	}
	if t.WallGPUs == 0 {
		return fmt.Sprintf("%s, %s", textutil.Duration(seconds), t.cost())
	}

	text := fmt.Sprintf("%s, %s on %s", t.cost(), textutil.Duration(t.WallSeconds), textutil.Counted(t.WallGPUs, "GPU"))
	if t.TooFew > 0 {
		text += fmt.Sprintf(", too few for cases on %d GPUs", t.TooFew)
	}
	return text
}

// cost describes an estimate in GPU-hours, and in money if a price is known.
func (t Totals) cost() string {
	text := figure(t.GPUHours) + " GPU-hours"
	if t.Cost > 0 {
		text += fmt.Sprintf(" at a cost of %.2f", t.Cost)
	}
	return text
}

// figure formats a number with two significant digits.
func figure(x float64) string {
	switch {
	case x >= 100:
		return textutil.Count(int64(math.Round(x)))
	case x >= 10:
		return fmt.Sprintf("%.0f", x)
	case x >= 0.95:
		return fmt.Sprintf("%.1f", x)
	}

	return fmt.Sprintf("%.2g", x)
}
