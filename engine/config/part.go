package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// decodePart returns the value of part.NAME. The blocks that include the part decode its body. Here all
// its references are resolved once, so that an invalid reference is reported at its position and
// not in every block that includes the part.
func (s *scope) decodePart(d *blockDecl) (cty.Value, hcl.Diagnostics) {
	exprs := bodyExpressions(d.body)
	if _, diags := s.context(exprs, nil, s.bareNames(exprs)); diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	p := &stage.Part{
		Address: s.qualify("part." + d.name), Body: d.body, Eval: &evaluator{scope: s}, Range: d.block.Range(),
	}

	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(d.name), "address": cty.StringVal(p.Address), "ref": cty.CapsuleVal(stage.PartType, p),
	}), nil
}
