// Package verify measures a sample of a dataset again and compares. The sample is drawn by a seed and
// spread over the grid and over short and long rows.
package verify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/collect"
)

// Kind returns the verify stage for registration.
func Kind() stage.Kind {
	return stage.Kind{
		Name:    "verify",
		Class:   stage.Verify,
		Version: 3, // 3: limits are no part of what was measured again
		Beside: map[string]string{
			"median": limitsJudge, "p95": limitsJudge, "severity": limitsJudge,
		},
		Summary: "measure a sample again and gate on the deviation",
		Outputs: map[string]cty.Type{
			// whether the sample is within the limits
			"passed": cty.Bool,
			// number of rows that were measured again
			"sampled": cty.Number,
			// median of again / before
			"median": cty.Number,
			// 95th percentile of the distance from the first value
			"p95": cty.Number,
			// largest distance from the first value
			"worst": cty.Number,
			// number of rows without a usable value the second time
			"failed": cty.Number,
		},
		New: func() stage.Stage {
			return &Config{Sample: 40, Seed: 1, Median: 0.02, P95: 0.1, Severity: "fail"}
		},
	}
}

const limitsJudge = "it judges what is there; see Judge"

// Config is a verify block.
type Config struct {
	// Collect is the stage that measured. Its runtime, settings and cases are used again.
	Collect cty.Value `hcl:"collect"`
	// Input is the table to verify and pass on. The default is the rows that collect measured.
	Input cty.Value `hcl:"input,optional"`
	// Sample is the largest number of rows that are measured again. They are spread over the values of by and over
	// short and long rows.
	Sample int `hcl:"sample,optional"`
	// By lists the columns over whose values the sample is spread. The default is the columns with words.
	By []string `hcl:"by,optional"`
	// Seed draws the sample.
	Seed int `hcl:"seed,optional"`
	// Median is the largest accepted distance of the median of again / before from 1.
	Median float64 `hcl:"median,optional"`
	// P95 is the largest accepted distance of 95 % of the rows from their first value. Zero disables the check.
	P95 float64 `hcl:"p95,optional"`
	// Severity is "fail" or "warn".
	Severity string `hcl:"severity,optional"`

	collect, input *stage.Ref
}

// Check validates the config.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)

	var err error
	if c.collect, err = stage.RefOf(c.Collect); err != nil {
		bad("Wrong collect", "collect: %s.", err)
	} else if c.collect.Kind != "collect" {
		bad("Wrong collect", "collect is %s; only a collect stage knows how its rows were measured.", c.collect.Address)
	}

	c.input = c.collect
	if stage.IsSet(c.Input) {
		if c.input, err = stage.RefOf(c.Input); err != nil {
			bad("Wrong input", "input: %s.", err)
		}
	}

	if c.Sample < 1 {
		bad("Wrong sample", "sample is %d; at least one row must be measured again.", c.Sample)
	}

	if !(c.Median >= 0) || !(c.P95 >= 0) {
		bad("Negative limit", "median is %v and p95 %v; they must be 0 or more.", c.Median, c.P95)
	}

	if c.Severity != "fail" && c.Severity != "warn" {
		bad("Unknown severity", "severity is %q; it must be \"fail\" or \"warn\".", c.Severity)
	}

	return diags
}

var _ stage.Forecaster = (*Config)(nil)

// Forecast implements stage.Forecaster. A verification passes its input on.
func (c *Config) Forecast(at hcl.Range, in stage.Forecasts) (*stage.Forecast, hcl.Diagnostics) {
	f := in(c.input)
	return f, stage.MissingColumns(f, c.By, at)
}

// Inputs are the dataset and the stage that measured it.
func (c *Config) Inputs() []stage.Input {
	in := []stage.Input{{Name: "input", Ref: c.input}}
	if c.input.Address != c.collect.Address {
		in = append(in, stage.Input{Name: "collect", Ref: c.collect})
	}
	return in
}

// Plan takes over how the collect stage measures.
func (c *Config) Plan(_ context.Context, pc *stage.PlanContext) (*stage.Plan, hcl.Diagnostics) {
	return &stage.Plan{Private: collect.MeasurementOf(pc.Upstream(c.collect))}, nil
}

// Run measures the sample and compares.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	ds := rc.Inputs["input"]
	if ds == nil || table.Len(ds.Table) == 0 {
		return nil, errors.New("there are no rows to verify")
	}

	if f, ok := c.remembered(rc); ok {
		out := c.outcome(ds, f)
		out.Message += ", as they were measured before"
		return out, nil
	}

	var m *collect.Measurement
	if rc.Plan != nil {
		m, _ = rc.Plan.Private.(*collect.Measurement)
	}

	if m == nil {
		return nil, fmt.Errorf("how %s measures is not known; the plan must be made again", c.collect.Address)
	}

	rows, err := c.sample(ds)
	if err != nil {
		return nil, err
	}

	tasks, err := c.tasksOf(m, ds, rows)
	if err != nil {
		return nil, err
	}

	if rc.Replace != nil {
		if err := rc.Replace(); err != nil {
			return nil, err
		}
	}

	src := &queue{rc: rc, tasks: tasks, total: len(tasks)}
	if out, err := c.measure(ctx, rc, m, ds, src); out != nil || err != nil {
		return out, err
	}

	f, err := compare(ds, src.done)
	if err != nil {
		return nil, err
	}

	return c.outcome(ds, f), nil
}

// measure runs the tasks on the collect stage's workers. An outcome means that
// the stage ends here.
func (c *Config) measure(ctx context.Context, rc *stage.RunContext, m *collect.Measurement, ds *stage.Dataset,
	src *queue) (*stage.Outcome, error) {
	w, needs, err := m.Start(ctx, rc, src.total)
	if errors.Is(err, context.Canceled) && rc.Stopped() {
		return src.interrupted(), nil
	}
	if err != nil || needs != nil {
		return needs, err
	}

	for _, f := range []struct{ name, now, before string }{
		{"framework", w.Environment.Framework, ds.Info.Framework}, {"version", w.Environment.Version, ds.Info.Version},
		{"device", w.Environment.Device, ds.Info.Device},
	} {
		if f.before != "" && f.now != f.before {
			return collect.Needs(
				m.Runtime,
				fmt.Sprintf(
					"the rows were measured with %s %q and here it is %q; a sample measured elsewhere proves nothing about them",
					f.name,
					f.before,
					f.now,
				),
			), nil
		}
	}

	if err := w.Pool.Run(ctx, w.Settings, src); err != nil {
		return nil, err
	}

	if rc.Stopped() && len(src.tasks) > 0 {
		return src.interrupted(), nil
	}

	return nil, nil
}

func (s *queue) interrupted() *stage.Outcome {
	return &stage.Outcome{Status: stage.StatusInterrupted, NoReuse: true,
		Message: fmt.Sprintf("interrupted after %d of %d cases", len(s.done), s.total)}
}

func finite(v float64) cty.Value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return cty.NullVal(cty.Number)
	}
	return stage.Number(v)
}
