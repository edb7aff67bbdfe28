// Package preflight checks the machine before anything is measured or created. It stops the stages that
// depend on it, or warns.
package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/doctor"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/executors"
	"aicplan/systems"
)

// Kind returns the preflight stage for registration.
func Kind(checks []Check) stage.Kind {
	return stage.Kind{
		Name: "preflight", Version: 1, Class: stage.Guard,
		Summary: "look at the machine before anything is measured",
		New:     func() stage.Stage { return &Config{all: checks} },
	}
}

// Check is a check of package doctor, or one that examines the runtime.
type Check struct {
	doctor.Check
	// Needs is what the preflight block must name for this check: "runtime" or "".
	Needs string
	// Look examines the machine and returns findings in the order of importance.
	Look func(context.Context, Target) []doctor.Finding
}

// Target has the limits of a check and the objects that it examines.
type Target struct {
	Runtime *stage.Runtime
	System  *systems.Spec
	Limits  doctor.Limits
	// Folders are the folders that the run writes to.
	Folders []string
}

// Config is a preflight block.
type Config struct {
	all     []Check
	runtime *stage.Runtime
	system  *systems.Spec
	place   *executors.Config
	checks  []use
}

// use is one check block.
type use struct {
	check    Check
	severity string // fail or warn
	limits   doctor.Limits
	pos      hcl.Range
}

var schema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		// runtime (reference) is the runtime whose devices and software are checked. Without it, all GPUs are checked.
		{Name: "runtime"},
		// system (reference) is the system that the machine must match.
		{Name: "system"},
		// executor (reference) is where the checks run: if it is of kind "slurm", each task runs them on its node.
		{Name: "executor"},
	},
	Blocks: []hcl.BlockHeaderSchema{
		// check (blocks) is labelled with the name of a check.
		{Type: "check", LabelNames: []string{"name"}},
	},
}

// checkAttributes are accepted in every check block.
var checkAttributes = []hcl.AttributeSchema{
	// on_fail is "stop", or "warn" to let the run continue. The default is "stop".
	{Name: "on_fail"},
}

// DecodeBody implements stage.BodyDecoder. The attributes of a check depend on its name.
func (c *Config) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	ctx, diags := eval.Context(stage.Expressions(body), nil)
	if diags.HasErrors() {
		return diags
	}

	content, more := body.Content(schema)
	diags = append(diags, more...)
	refer := func(name string, take func(cty.Value) error) {
		a, ok := content.Attributes[name]
		if !ok {
			return
		}

		v, more := a.Expr.Value(ctx)
		diags = append(diags, more...)

		if more.HasErrors() || v.IsNull() { // null is as if it were left out
			return
		}

		if err := take(v); err != nil {
			diags = append(diags, stage.ErrorAt(a.Expr.Range(), "Unsuitable reference", "%v.", err)...)
		}
	}

	refer("runtime", func(v cty.Value) (err error) {
		c.runtime, err = stage.RuntimeOf(v)
		return err
	})

	refer("system", func(v cty.Value) (err error) {
		c.system, err = stage.SystemOf(v)
		return err
	})

	refer("executor", func(v cty.Value) error {
		block, err := stage.ServiceOf(v, "executor")
		if err == nil {
			c.place, err = executors.Parse(block)
		}
		return err
	})

	for _, b := range content.Blocks {
		diags = append(diags, c.decodeCheck(b, ctx)...)
	}

	return diags
}

func (c *Config) decodeCheck(b *hcl.Block, ctx *hcl.EvalContext) hcl.Diagnostics {
	i := slices.IndexFunc(c.all, func(k Check) bool { return k.Name == b.Labels[0] })
	if i < 0 {
		var names []string
		for _, k := range c.all {
			names = append(names, k.Name)
		}
		return stage.ErrorAt(b.LabelRanges[0], "Unknown preflight check", "There is no check %q.%s The checks are: %s.",
			b.Labels[0], textutil.DidYouMean(b.Labels[0], names), strings.Join(names, ", "))
	}

	u := use{check: c.all[i], severity: "fail", limits: doctor.Limits{}, pos: b.DefRange}
	content, diags := b.Body.Content(&hcl.BodySchema{Attributes: slices.Concat(checkAttributes, u.check.schema())})
	for name, a := range content.Attributes {
		if name == "on_fail" {
			var word string
			diags = append(diags, gohcl.DecodeExpression(a.Expr, ctx, &word)...)
			switch word {
			case "stop":
			case "warn":
				u.severity = "warn"
			default:
				diags = append(diags, stage.ErrorAt(a.Expr.Range(), "Invalid on_fail", `on_fail is "stop" or "warn".`)...)
			}

			continue
		}

		v, more := a.Expr.Value(ctx)
		diags = append(diags, more...)

		if v.IsNull() { // as good as not given
			continue
		}

		limit, err := u.check.limit(name, v)
		if err != nil && !more.HasErrors() {
			diags = append(diags, stage.ErrorAt(a.Expr.Range(), "Wrong value", "%v.", err)...)
		}
		u.limits[name] = limit
	}

	c.checks = append(c.checks, u)
	return diags
}

// schema returns the attributes of the check besides on_fail.
func (c *Check) schema() (out []hcl.AttributeSchema) {
	for _, a := range c.Attributes {
		out = append(out, hcl.AttributeSchema{Name: a.Name})
	}
	return out
}

// limit converts the value of an attribute to the type of its default.
func (c *Check) limit(name string, v cty.Value) (any, error) {
	want := cty.Number
	i := slices.IndexFunc(c.Attributes, func(a doctor.Attribute) bool { return a.Name == name })
	if _, text := c.Attributes[i].Default.(string); text {
		want = cty.String
	}

	switch {
	case v.Type() != want:
		return nil, fmt.Errorf(
			"%s of the check %q must be %s, not %s",
			name,
			c.Name,
			want.FriendlyName(),
			v.Type().FriendlyName(),
		)
	case want == cty.String:
		return v.AsString(), nil
	}

	f, _ := v.AsBigFloat().Float64()
	if f < 0 {
		return nil, fmt.Errorf("%s of the check %q is %v; it must not be negative", name, c.Name, f)
	}
	return f, nil
}

// Words implements stage.BodyDecoder: under "check NAME" what each check takes besides
// on_fail.
func (c *Config) Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	out.Add("", schema)
	out.Add("check", &hcl.BodySchema{Attributes: checkAttributes})

	for _, k := range c.all {
		out["check "+k.Name] = nil
		out.Add("check "+k.Name, &hcl.BodySchema{Attributes: k.schema()})
	}

	return out
}

// Check implements stage.Stage.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, u := range c.checks {
		if u.check.Needs == "runtime" && c.runtime == nil {
			diags = append(diags, stage.ErrorAt(u.pos, "Missing runtime",
				"The check %q examines a runtime: add runtime = runtime.NAME to the preflight block.", u.check.Name)...)
		}
	}

	if len(c.checks) == 0 {
		diags = append(diags, stage.WarningAt(cc.Range, "Preflight without checks",
			"The block has no check and passes always.")...)
	}

	return diags
}

// Inputs implements stage.Stage: a preflight reads no table.
func (c *Config) Inputs() []stage.Input { return nil }

// Values implements stage.Valuer.
func (c *Config) Values() map[string]any {
	out := map[string]any{}
	if c.runtime != nil {
		out["runtime"] = stage.RuntimeValues(c.runtime)
	}

	if c.system != nil {
		out["system"] = stage.SystemValue(c.system)
	}

	var checks []any
	for _, u := range c.checks {
		check := map[string]any{"check": u.check.Name, "severity": u.severity}
		maps.Copy(check, u.limits)
		checks = append(checks, check)
	}

	if checks != nil {
		out["check"] = checks
	}

	return out
}

// Run runs all checks, so that the user sees all problems at once.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	out := &stage.Outcome{Status: stage.StatusOK, NoReuse: true}
	if c.place.Elsewhere() && !rc.OnNode {
		out.Message = "every task of " + c.place.Address + " does it on its node"
		return out, nil
	}

	var failed []string
	for _, u := range c.checks {
		res := u.look(ctx, Target{Runtime: c.runtime, System: c.system, Limits: u.limits,
			Folders: []string{rc.Store.Dir(), rc.OutDir}})
		res.Pos = fmt.Sprintf("%s:%d", u.pos.Filename, u.pos.Start.Line)
		out.Checks = append(out.Checks, res)

		switch res.Result {
		case "fail":
			failed = append(failed, u.check.Name)
		case "warn":
			rc.Events.Message(rc.Address, "warn", res.Name+": "+res.Message)
		}

		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}

	if len(failed) > 0 {
		out.Status = stage.StatusPreflight
		out.Message = strings.Join(failed, ", ") + " did not pass"
	}

	return out, nil
}

func (u use) look(ctx context.Context, t Target) stage.CheckResult {
	res := stage.CheckResult{Name: u.check.Name, Severity: u.severity, Result: doctor.Pass}
	var messages, fixes []string
	for _, f := range u.check.Look(ctx, t) {
		if f.Device != "" && !strings.Contains(f.Message, f.Device) {
			f.Message = "GPU " + f.Device + ": " + f.Message
		}
		messages = append(messages, f.Message)
		if f.Fix != "" && !slices.Contains(fixes, f.Fix) {
			fixes = append(fixes, f.Fix)
		}

		switch {
		case f.Result == doctor.Fail:
			res.Result = u.severity
		case f.Result == doctor.Skip && res.Result == doctor.Pass:
			res.Result = doctor.Skip
		}
	}

	res.Message, res.Fix = strings.Join(messages, "; "), strings.Join(fixes, "; ")
	return res
}
