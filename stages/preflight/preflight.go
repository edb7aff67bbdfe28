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
	"github.com/hashicorp/hcl/v2/hclsyntax"
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
	// Runtime (reference) is the runtime whose devices and software are checked. Without it, all GPUs are checked.
	Runtime cty.Value `hcl:"runtime,optional"`
	// System (reference) is the system that the machine must match.
	System cty.Value `hcl:"system,optional"`
	// Executor (reference) is where the checks run: if it is of kind "slurm", each task runs them on its node.
	Executor cty.Value `hcl:"executor,optional"`
	// Checks (blocks) is labelled with the name of a check.
	Checks []CheckBlock `hcl:"check,block"`

	all     []Check
	runtime *stage.Runtime
	system  *systems.Spec
	place   *executors.Config
}

// CheckBlock is one check. It also takes the attributes of the check.
type CheckBlock struct {
	Name string `hcl:"name,label"`
	// OnFail is "stop", or "warn" to let the run continue. The default is "stop".
	OnFail string    `hcl:"on_fail,optional"`
	Rest   hcl.Body  `hcl:",remain"`
	Range  hcl.Range `hcl:",def_range"`

	check  Check
	limits doctor.Limits
}

// DecodeBody implements stage.BodyDecoder. The attributes of a check depend on its name.
func (c *Config) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	diags := stage.Decode(body, eval, c)
	ctx, more := eval.Context(stage.Expressions(body), nil)
	if diags.HasErrors() || more.HasErrors() {
		return append(diags, more...)
	}

	for i := range c.Checks {
		diags = append(diags, c.Checks[i].decode(c.all, ctx)...)
	}
	return diags
}

func (b *CheckBlock) decode(all []Check, ctx *hcl.EvalContext) hcl.Diagnostics {
	var names []string
	for _, k := range all {
		names = append(names, k.Name)
	}
	i := slices.Index(names, b.Name)
	if i < 0 {
		return stage.ErrorAt(b.Range, "Unknown preflight check", "There is no check %q.%s The checks are: %s.",
			b.Name, textutil.DidYouMean(b.Name, names), strings.Join(names, ", "))
	}

	b.check, b.limits = all[i], doctor.Limits{}
	own := &stage.Own{What: fmt.Sprintf("the check %q", b.Name), Shared: []string{"on_fail"}}
	for _, a := range b.check.Attributes {
		o := stage.Option{Name: a.Name, Type: cty.Number}
		if _, text := a.Default.(string); text {
			o.Type = cty.String
		}
		own.Options = append(own.Options, o)
	}

	values, diags := own.Decode(b.Rest.(*hclsyntax.Body), ctx)
	bad := stage.Errors(&diags, b.Range)
	for name, v := range values {
		if v.Type() == cty.String {
			b.limits[name] = v.AsString()
			continue
		}
		f, _ := v.AsBigFloat().Float64()
		if b.limits[name] = f; f < 0 {
			bad("Wrong value", "%s of the check %q is %v; it must not be negative.", name, b.Name, f)
		}
	}

	if !slices.Contains([]string{"", "stop", "warn"}, b.OnFail) {
		bad("Invalid on_fail", `on_fail is %q; it is "stop" or "warn".`, b.OnFail)
	}
	return diags
}

// Values implements stage.Valuer. The attributes of a check are not fields of its struct, and where the checks run
// changes none of their results.
func (c *Config) Values() map[string]any {
	out := stage.Fields(c)
	delete(out, "executor")
	for i, b := range c.Checks {
		check := map[string]any{"check": b.Name, "severity": b.severity()}
		maps.Copy(check, b.limits)
		out["check"].([]any)[i] = check
	}
	return out
}

// Words implements stage.BodyDecoder: under "check NAME" what each check takes besides
// on_fail.
func (c *Config) Words() stage.Vocabulary {
	out := stage.TagWords(c)
	for _, k := range c.all {
		out["check "+k.Name] = nil
		for _, a := range k.Attributes {
			out["check "+k.Name] = append(out["check "+k.Name], a.Name)
		}
	}
	return out
}

// Check implements stage.Stage.
func (c *Config) Check(cc *stage.CheckContext) (diags hcl.Diagnostics) {
	bad := stage.Errors(&diags, cc.Range)
	refer := func(name string, v cty.Value, take func() error) {
		if stage.IsSet(v) {
			if err := take(); err != nil {
				bad("Unsuitable reference", "%s: %v.", name, err)
			}
		}
	}
	refer("runtime", c.Runtime, func() (err error) {
		c.runtime, err = stage.RuntimeOf(c.Runtime)
		return err
	})
	refer("system", c.System, func() (err error) {
		c.system, err = stage.SystemOf(c.System)
		return err
	})
	refer("executor", c.Executor, func() error {
		block, err := stage.ServiceOf(c.Executor, "executor")
		if err == nil {
			c.place, err = executors.Parse(block)
		}
		return err
	})

	for _, b := range c.Checks {
		if b.check.Needs == "runtime" && c.runtime == nil {
			stage.AddError(&diags, b.Range, "Missing runtime",
				"The check %q examines a runtime: add runtime = runtime.NAME to the preflight block.", b.Name)
		}
	}

	if len(c.Checks) == 0 {
		diags = append(diags, stage.WarningAt(cc.Range, "Preflight without checks",
			"The block has no check and passes always.")...)
	}
	return diags
}

// Inputs implements stage.Stage: a preflight reads no table.
func (c *Config) Inputs() []stage.Input { return nil }

// Run runs all checks, so that the user sees all problems at once.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	out := &stage.Outcome{Status: stage.StatusOK, NoReuse: true}
	if c.place.Elsewhere() && !rc.OnNode {
		out.Message = "every task of " + c.place.Address + " does it on its node"
		return out, nil
	}

	var failed []string
	for _, b := range c.Checks {
		res := b.look(ctx, Target{Runtime: c.runtime, System: c.system, Limits: b.limits,
			Folders: []string{rc.Store.Dir, rc.OutDir}})
		res.Pos = fmt.Sprintf("%s:%d", b.Range.Filename, b.Range.Start.Line)
		out.Checks = append(out.Checks, res)

		switch res.Result {
		case "fail":
			failed = append(failed, b.Name)
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

func (b *CheckBlock) severity() string {
	if b.OnFail == "warn" {
		return "warn"
	}
	return "fail"
}

func (b *CheckBlock) look(ctx context.Context, t Target) stage.CheckResult {
	res := stage.CheckResult{Name: b.Name, Severity: b.severity(), Result: doctor.Pass}
	var messages, fixes []string
	for _, f := range b.check.Look(ctx, t) {
		if f.Device != "" && !strings.Contains(f.Message, f.Device) {
			f.Message = "GPU " + f.Device + ": " + f.Message
		}
		messages = append(messages, f.Message)
		if f.Fix != "" && !slices.Contains(fixes, f.Fix) {
			fixes = append(fixes, f.Fix)
		}

		switch {
		case f.Result == doctor.Fail:
			res.Result = res.Severity
		case f.Result == doctor.Skip && res.Result == doctor.Pass:
			res.Result = doctor.Skip
		}
	}

	res.Message, res.Fix = strings.Join(messages, "; "), strings.Join(fixes, "; ")
	return res
}
