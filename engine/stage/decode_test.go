package stage

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

type nested struct {
	Passes int `hcl:"passes,optional"`
}

type target struct {
	File   string    `hcl:"file"`
	Base   string    `hcl:"base,optional"`
	Ramp   []int     `hcl:"ramp,optional"`
	Input  cty.Value `hcl:"input,optional"`
	Nested *nested   `hcl:"measure,block"`
	Many   []nested  `hcl:"rung,block"`
}

func decodeText(t *testing.T, text string) (target, hcl.Diagnostics) {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(text), "t.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	out := target{Base: "main", Ramp: []int{4}}
	body := f.Body.(*hclsyntax.Body)
	before := len(body.Attributes)
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"unset": cty.NullVal(cty.String)}}
	diags = DecodeBody(body, ctx, &out)
	if len(body.Attributes) != before {
		t.Error("the body that was read has changed")
	}
	return out, diags
}

// TestNullIsNotGiven: Terraform's rule. An optional attribute that is null
// leaves the default, in nested blocks too.
func TestNullIsNotGiven(t *testing.T) {
	got, diags := decodeText(t, "file = \"x\"\nbase = unset\nramp = true ? null : [1]\ninput = null\nmeasure {\n  "+
		"passes = null\n}\nrung {\n  passes = null\n}\nrung {\n  passes = 2\n}\n")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if got.Base != "main" || len(got.Ramp) != 1 || got.Nested == nil || got.Nested.Passes != 0 || len(got.Many) != 2 ||
		got.Many[1].Passes != 2 {
		t.Errorf("decoded %+v", got)
	}
	if got.Input == cty.NilVal || !got.Input.IsNull() {
		t.Errorf("a value sees its null itself, got %#v", got.Input)
	}
}

func TestNullOfARequiredAttribute(t *testing.T) {
	if _, diags := decodeText(t, "file = unset"); !diags.HasErrors() {
		t.Error("a required attribute may not be null")
	}
	if _, diags := decodeText(t, "file = \"x\"\nbase = nope"); !diags.HasErrors() {
		t.Error("an attribute that cannot be evaluated is an error still")
	}
}
