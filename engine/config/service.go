package config

import (
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// serviceKind returns the kind of service blocks with the given block type, or nil.
func (l *loader) serviceKind(name string) *stage.ServiceKind {
	if i := slices.IndexFunc(l.opts.Services, func(k stage.ServiceKind) bool { return k.Name == name }); i >= 0 {
		return &l.opts.Services[i]
	}
	return nil
}

func (l *loader) serviceKinds() []string {
	var out []string
	for _, k := range l.opts.Services {
		out = append(out, k.Name)
	}
	return out
}

// decodeService returns the value of KIND.NAME for a service block.
func (s *scope) decodeService(kind *stage.ServiceKind, d *blockDecl) (cty.Value, hcl.Diagnostics) {
	ctx, diags := s.context(bodyExpressions(d.body), nil, nil)
	if diags.HasErrors() || s.consequence(bodyExpressions(d.body), ctx) {
		return cty.DynamicVal, diags
	}

	own := &stage.Own{What: "a " + kind.Name + " block", Options: kind.Options, Blocks: kind.Blocks, At: d.rng(),
		Suggest: didYouMean}
	options, more := own.Decode(d.body, ctx)
	if diags = append(diags, more...); diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	dir, err := filepath.Abs(s.decl.dir)
	if err != nil {
		dir = s.decl.dir
	}

	v := &stage.Service{Kind: kind.Name, Name: d.name, Address: s.qualify(kind.Name + "." + d.name), Options: options,
		Dir: dir, Range: d.rng()}

	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(d.name), "address": cty.StringVal(v.Address),
		"ref": cty.CapsuleVal(stage.ServiceType, v),
	}), diags
}
