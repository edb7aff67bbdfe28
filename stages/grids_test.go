package stages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages"
	"aicplan/stages/grids"
)

// values is a stage.Evaluator over fixed values.
type values map[string]cty.Value

func (v values) Text(hcl.Range) string { return "" }

func (v values) Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{}}
	for _, e := range exprs {
		for _, t := range e.Variables() {
			root := t.RootName()
			if bound[root] {
				continue
			}

			if _, ok := v[root]; !ok {
				diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown reference",
					Subject: t.SourceRange().Ptr()})
				continue
			}

			ctx.Variables[root] = v[root]
		}
	}

	return ctx, diags
}

func decode(t *testing.T, src string) (*grids.Stage, hcl.Diagnostics) {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "plan.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	s := grids.Kind().New().(*grids.Stage)
	diags = s.DecodeBody(f.Body, values{"local": cty.ObjectVal(map[string]cty.Value{"sizes": cty.TupleVal([]cty.Value{cty.NumberIntVal(1), cty.NumberIntVal(2)})})})
	return s, diags
}

func mustDecode(t *testing.T, src string) *grids.Stage {
	t.Helper()
	s, diags := decode(t, src)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return s
}

const gridPlan = `
op         = "gemm"
perf_table = "gemm_perf"
axis "m" { values = local.sizes }
axis "n" { values = [4, 8] }
filter "square" {
  keep   = m * 4 != n
  reason = "no squares"
}
sweep "tokens" { values = [1, 2, 3] }
`

func TestGridPlan(t *testing.T) {
	s := mustDecode(t, gridPlan)
	p, diags := s.Plan(context.Background(),
		&stage.PlanContext{Address: "grid.gemm", Options: stage.Options{Limit: 1, Smoke: true}})
	if len(diags) > 0 {
		t.Fatal(diags)
	}

	w := p.Waterfall
	if w.Declared != 4 || w.Cases != 2 || w.Rows != 6 || len(w.Filters) != 1 || w.Filters[0].Dropped != 2 ||
		w.Filters[0].Reason != "no squares" {
		t.Errorf("waterfall %+v", w)
	}

	if fmt.Sprint(w.Axes) != "[{m 2} {n 2}]" {
		t.Errorf("axes %v", w.Axes)
	}

	info := p.Data.Info
	if info.Op != "gemm" || info.Perf != "gemm_perf" || fmt.Sprint(info.Params) != "[m n]" || info.Partial != "" {
		t.Errorf("info %+v", info)
	}

	if p.Data.Planned.NumRows() != 2 || p.Data.Table != nil {
		t.Errorf("a limit changed the grid: %d rows", p.Data.Planned.NumRows())
	}

	c := grids.CasesOf(p)
	if c == nil || string(c.Sweep(0).JSON()) != `[{"tokens":1},{"tokens":2},{"tokens":3}]` {
		t.Errorf("sweep %v", c)
	}

	out, err := s.Run(context.Background(), &stage.RunContext{Plan: p})
	if err != nil || out.Status != stage.StatusOK || out.Data.Planned != p.Data.Planned || out.Counts.Planned != 2 {
		t.Errorf("run: %+v, %v", out, err)
	}

	if grids.CasesOf(&stage.Plan{}) != nil || grids.CasesOf(nil) != nil {
		t.Error("cases of a plan that is no grid's")
	}
}

// TestGridFingerprint: what does not change the cases does not change the
// fingerprint, everything else does.
func TestGridFingerprint(t *testing.T) {
	print := func(src string) string {
		b, err := json.Marshal(mustDecode(t, src).Values())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	base := print(gridPlan)
	for what, src := range map[string]string{
		"a description": strings.Replace(gridPlan, "op ", "description = \"x\"\nop ", 1),
		"another way":   strings.Replace(gridPlan, "m * 4 != n", "n != 4 * m", 1),
		"literal sizes": strings.Replace(gridPlan, "local.sizes", "[1, 2]", 1),
	} {
		if got := print(src); got != base {
			t.Errorf("%s changes the fingerprint: %s, was %s", what, got, base)
		}
	}

	for what, src := range map[string]string{
		"a value":    strings.Replace(gridPlan, "[4, 8]", "[4, 8, 16]", 1),
		"the order":  strings.Replace(gridPlan, "local.sizes", "[2, 1]", 1),
		"the sweep":  strings.Replace(gridPlan, "[1, 2, 3]", "[1, 2, 4]", 1),
		"the table":  strings.Replace(gridPlan, "gemm_perf", "x_perf", 1),
		"the op":     strings.Replace(gridPlan, `"gemm"`, `"gemm2"`, 1),
		"a constant": "constants = { beam_width = 1 }\n" + gridPlan,
	} {
		if print(src) == base {
			t.Errorf("%s does not change the fingerprint", what)
		}
	}
}

func TestGridErrorsReachTheEngine(t *testing.T) {
	s, diags := decode(t, "op = \"x\"\naxis \"m\" { values = local.nope }")
	if !diags.HasErrors() || s.Spec != nil {
		t.Errorf("diagnostics %v", diags)
	}

	bad := mustDecode(t, "op = \"x\"\naxis \"m\" { values = [0, 1] }\nfilter \"f\" {\n keep = 1 / m > 0\n reason = "+
		"\"r\"\n}")
	p, diags := bad.Plan(context.Background(), &stage.PlanContext{})
	if p != nil || !diags.HasErrors() || diags[0].Subject == nil {
		t.Errorf("plan %v, diagnostics %v", p, diags)
	}

	if _, err := bad.Run(context.Background(), &stage.RunContext{Address: "grid.x"}); err == nil ||
		!strings.Contains(err.Error(), "division by zero") {
		t.Errorf("run: %v", err)
	}
}

// TestGridNamesHideNoRoot checks that no axis can have the name of a kind of blocks, which expressions refer to.
func TestGridNamesHideNoRoot(t *testing.T) {
	t.Parallel()
	names := []string{"var", "local", "module", "system", "runtime", "part", "each", "path"}
	set := stages.All()
	defer set.Close() //nolint:errcheck // no workers
	for name := range set.Kinds {
		names = append(names, name)
	}
	for _, k := range set.Services() {
		names = append(names, k.Name)
	}

	for _, name := range names {
		f, _ := hclsyntax.ParseConfig([]byte(`axis "`+name+`" { values = [1] }`), "g.hcl", hcl.InitialPos)
		if _, diags := grid.Decode(f.Body, values{}, nil); !strings.Contains(diags.Error(), "would hide") {
			t.Errorf("%s: %v", name, diags)
		}
	}
}
