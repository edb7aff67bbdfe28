package config

import (
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// decodeService returns the value of KIND.NAME for a service block.
func (s *scope) decodeService(d *blockDecl, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	own := &stage.Own{What: "a " + d.kind + " block", Options: s.l.services[d.kind].Options,
		Blocks: s.l.services[d.kind].Blocks, At: d.rng()}
	options, diags := own.Decode(d.body, ctx)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	dir, err := filepath.Abs(s.decl.dir)
	if err != nil {
		dir = s.decl.dir
	}

	v := &stage.Service{Kind: d.kind, Name: d.name, Address: s.qualify(d.kind + "." + d.name), Options: options,
		Dir: dir, Range: d.rng()}

	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(d.name), "address": cty.StringVal(v.Address),
		"ref": cty.CapsuleVal(stage.ServiceType, v),
	}), diags
}

// decodePart returns the value of part.NAME. The blocks that include the part decode its body. Its references are
// resolved before, so that an invalid reference is reported at its position and not in every block that includes
// the part.
func (s *scope) decodePart(d *blockDecl, _ *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	p := &stage.Part{
		Address: s.qualify("part." + d.name), Body: d.body, Eval: &evaluator{scope: s}, Range: d.block.Range(),
	}

	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(d.name), "address": cty.StringVal(p.Address), "ref": cty.CapsuleVal(stage.PartType, p),
	}), nil
}
