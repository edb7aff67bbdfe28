package report

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

func ref(kind, name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: kind + "." + name, Kind: kind})})
}

// decode reads the body of a report block.
func decode(t *testing.T, body string) (*Config, hcl.Diagnostics) {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(body), "plan.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	c := Kind().New().(*Config)
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{
		"gate":   cty.ObjectVal(map[string]cty.Value{"gemm": ref("gate", "gemm"), "attention": ref("gate", "attention")}),
		"import": cty.ObjectVal(map[string]cty.Value{"old": ref("import", "old")}),
	}}
	if diags = gohcl.DecodeBody(f.Body, ctx, c); diags.HasErrors() {
		return c, diags
	}

	return c, c.Check(&stage.CheckContext{})
}

const full = `
title     = "A release"
inputs    = [gate.gemm, gate.attention]
reference = import.old
file      = "release/report.html"
format    = ["markdown", "html", "json"]
`

type silent struct{ stage.Events }

func (silent) Emit(string, string, map[string]any) {}

// context is a run with one good table, one that its gate stopped, and a
// reference.
func runContext(t *testing.T) *stage.RunContext {
	t.Helper()
	in := sampleInput(t, 300)
	return &stage.RunContext{
		Address: "report.r", Events: silent{}, RunDir: "/state/runs/20260304T220500.000-ab12", OutDir: t.TempDir(),
		Inputs: map[string]*stage.Dataset{"inputs[0]": in.Tables[0].Data, "inputs[1]": in.Tables[1].Data,
			"reference[0]": in.Tables[0].Reference},
		Upstream: func() []stage.Finished { return in.Finished },
	}
}

func TestRun(t *testing.T) {
	c, diags := decode(t, full)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	rc := runContext(t)
	out, err := c.Run(context.Background(), rc)
	if err != nil {
		t.Fatal(err)
	}

	if out.Status != stage.StatusOK || !out.NoReuse || out.Values["verdict"].AsString() != "gate failed" {
		t.Errorf("outcome %+v", out)
	}

	if len(out.Artifacts) != 3 {
		t.Fatalf("artifacts %+v", out.Artifacts)
	}

	for i, name := range []string{"report.html", "report.json", "report.md"} {
		a := out.Artifacts[i]
		if a.Path != filepath.Join(rc.OutDir, "release", name) {
			t.Errorf("artifact %s, want %s", a.Path, name)
		}

		data, err := os.ReadFile(a.Path)
		if err != nil || fileutil.Digest(data) != a.Digest {
			t.Errorf("%s: %v, its digest is %s", name, err, a.Digest)
		}

		for _, want := range []string{"A release", "20260304T220500.000-ab12", "TRTLLM 1.3.0rc20", "gate.attention"} {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}

	again, err := c.Run(context.Background(), rc)
	if err != nil {
		t.Fatal(err)
	}

	for i, a := range again.Artifacts {
		if a.Digest != out.Artifacts[i].Digest {
			t.Errorf("%s has other bytes the second time", a.Path)
		}
	}
}

// TestGoodRunIsReused: only what tells of stages that left a record may stand
// for the next run.
func TestGoodRunIsReused(t *testing.T) {
	c, diags := decode(t, `inputs = gate.gemm`)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	rc := runContext(t)
	all := rc.Upstream()
	rc.Upstream = func() []stage.Finished { return all[:5] }
	out, err := c.Run(context.Background(), rc)
	if err != nil {
		t.Fatal(err)
	}

	if out.NoReuse || out.Values["verdict"].AsString() != "passed, with warnings" {
		t.Errorf("outcome %+v", out)
	}
}

// TestAfterFailure: inputs of stages that broke are nil.
func TestAfterFailure(t *testing.T) {
	c, diags := decode(t, full)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	rc := runContext(t)
	rc.Inputs = map[string]*stage.Dataset{}
	if _, err := c.Run(context.Background(), rc); err != nil {
		t.Errorf("without any data: %v", err)
	}
}

func TestChecks(t *testing.T) {
	for body, want := range map[string]string{
		`inputs = "gemm"`:                                 "it must refer to a stage",
		`inputs = [gate.gemm, 3]`:                         "element 2",
		`inputs = []`:                                     "inputs is empty",
		"inputs = gate.gemm\nformat = []":                 "would write nothing",
		"inputs = gate.gemm\nformat = [\"pdf\"]":          `no format "pdf"`,
		"inputs = gate.gemm\nfile = \"../../etc/passwd\"": "leads out of the output folder",
		"inputs = gate.gemm\nreference = 7":               "reference:",
	} {
		if _, diags := decode(t, body); !diags.HasErrors() || !strings.Contains(diags.Error(), want) {
			t.Errorf("%q: %v, want %q", body, diags, want)
		}
	}
}

// TestOutside: a link in the output folder must not lead a report out of it.
func TestOutside(t *testing.T) {
	c, diags := decode(t, "inputs = gate.gemm\nfile = \"link/report\"")
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	rc := runContext(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(rc.OutDir, "link")); err != nil {
		t.Fatal(err)
	}

	if _, err := c.Run(context.Background(), rc); err == nil || !strings.Contains(err.Error(), "output folder") {
		t.Errorf("written through a link: %v", err)
	}
}
