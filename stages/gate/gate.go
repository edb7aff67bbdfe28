// Package gate evaluates named checks on a dataset. A gate passes its input on unchanged. If a check of
// severity "fail" fails, the dependent stages do not run.
package gate

import (
	"context"
	"embed"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
)

//go:embed *.go
var source embed.FS

// Kind returns the gate stage for registration.
func Kind() stage.Kind {
	return stage.Kind{
		Name:      "gate",
		Class:     stage.Check,
		Version:   3, // 2: data that cannot be judged does not pass; 3: systems are compared by all fields
		Code:      stage.CodeOf(source, rules.Source, catalog.Source, table.Source),
		Summary:   "judge a dataset by checks; data that fails goes no further",
		BareNames: true,
		Outputs: map[string]cty.Type{
			// whether no check of severity "fail" failed
			"passed": cty.Bool,
			// number of checks of severity "warn" that failed
			"warnings": cty.Number,
			// number of checks of severity "fail" that failed
			"failures": cty.Number,
		},
		New: func() stage.Stage { return &Config{} },
	}
}

// Severities of a check.
const (
	SeverityFail = "fail"
	SeverityWarn = "warn"
)

// Results of a check.
const (
	ResultPass = "pass"
	ResultFail = "fail"
	ResultWarn = "warn"
	ResultSkip = "skip"
)

const maxRows = stage.MaxCheckRows

// Config is a gate block.
type Config struct {
	input   *stage.Ref
	entries []entry
}

// entry is one check or assert block.
type entry struct {
	name      string // as shown in results
	kind      string // name of the check, or "assert"
	severity  string
	minJudged float64 // share of the rows that the check must be able to judge
	check     check
	block     hcl.Range
}

// Check returns an error for each check that compares the input with itself. DecodeBody validates everything else.
func (c *Config) Check(*stage.CheckContext) hcl.Diagnostics {
	return c.cannotFail(func(r *stage.Ref) bool { return c.input != nil && r.Address == c.input.Address },
		"%[1]s, the input of the gate, with itself")
}

// cannotFail returns an error for each check whose reference has the rows of the input. format is for the addresses of
// the reference and the input.
func (c *Config) cannotFail(same func(*stage.Ref) bool, format string) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, e := range c.entries {
		refs := e.refs()
		if len(refs) > 0 && same(refs[0]) && slices.Contains([]string{"compare", "coverage", "prediction"}, e.kind) {
			diags = append(diags, stage.ErrorAt(e.block, "Check that cannot fail", "The check compares "+format+
				". Name another stage or an import.", refs[0].Address, c.input.Address)...)
		}
	}

	return diags
}

// Inputs lists the judged dataset, then the references of the checks in the order of their blocks.
func (c *Config) Inputs() []stage.Input {
	in := []stage.Input{{Name: "input", Ref: c.input}}
	for i, e := range c.entries {
		for j, ref := range e.refs() {
			in = append(in, stage.Input{Name: inputName(i, j), Ref: ref})
		}
	}

	return in
}

// refs returns the other datasets that the check reads.
func (e entry) refs() []*stage.Ref {
	if r, ok := e.check.(referrer); ok {
		return r.refersTo()
	}
	return nil
}

func inputName(i, j int) string { return fmt.Sprintf("reference%d_%d", i, j) }

// Values implements stage.Valuer with all limits. Severities are included because they decide whether
// dependent stages run.
func (c *Config) Values() map[string]any {
	out := map[string]any{}
	if c.input != nil {
		out["input"] = map[string]any{"stage": c.input.Address}
	}

	checks := make([]any, 0, len(c.entries))
	for _, e := range c.entries {
		var v map[string]any
		if own, ok := e.check.(interface{ Values() map[string]any }); ok {
			v = own.Values()
		} else {
			v = stage.Fields(e.check)
		}

		v["kind"], v["name"], v["severity"] = e.kind, e.name, e.severity
		v["min_judged"] = e.minJudged
		checks = append(checks, v)
	}

	out["checks"] = checks
	return out
}

// Run evaluates all checks on the input. A failed check sets the outcome's status and is not an error.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	ds := rc.Inputs["input"]
	out := &stage.Outcome{Status: stage.StatusOK, Data: ds}
	out.Counts.Rows = table.Len(ds.Table)

	failures, warnings := 0, 0
	shared := &prepared{}
	for i, e := range c.entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		s := &subject{ds: ds, rec: ds.Table, shared: shared, object: rc.Store.GetBytes}
		for j := range e.refs() {
			s.others = append(s.others, rc.Inputs[inputName(i, j)])
		}

		res := e.settle(s, e.check.run(s))
		res.Pos = rc.Place(e.block)
		out.Checks = append(out.Checks, res)

		switch res.Result {
		case ResultFail:
			failures++
			report(rc, "error", res)
		case ResultWarn:
			warnings++
			report(rc, "warn", res)
		}
	}

	if failures > 0 {
		out.Status = stage.StatusGateFailed
		out.Message = fmt.Sprintf("%d of %s failed", failures, textutil.Counted(len(c.entries), "check"))
		out.NoReuse = true
	} else if warnings > 0 {
		out.Message = fmt.Sprintf("%d of %d checks warn", warnings, len(c.entries))
	}

	out.Values = map[string]cty.Value{
		"passed":   cty.BoolVal(failures == 0),
		"warnings": cty.NumberIntVal(int64(warnings)),
		"failures": cty.NumberIntVal(int64(failures)),
	}

	return out, nil
}

func report(rc *stage.RunContext, level string, r stage.CheckResult) {
	rc.Events.Message(rc.Address, level, fmt.Sprintf("check %s: %s", r.Name, r.Message))
}
