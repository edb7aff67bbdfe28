package config

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// block returns the value of a block that is no stage, such as runtime.NAME.
func (s *scope) block(r ref, decode func(*blockDecl, *hcl.EvalContext) (cty.Value, hcl.Diagnostics)) (cty.Value,
	hcl.Diagnostics) {
	d, diags := s.declared(r.root, r.name, r.rng)
	if d == nil {
		return cty.DynamicVal, diags
	}

	return s.once(r.root+"."+r.name, d.rng(), func() (cty.Value, hcl.Diagnostics) {
		exprs := bodyExpressions(d.body)
		var bound map[string]bool
		if r.root == "part" { // the blocks that include the part bind the other names
			bound = s.bareNames(exprs)
		}

		ctx, diags := s.context(exprs, nil, bound)
		if diags.HasErrors() || bound == nil && s.consequence(exprs, ctx) {
			return cty.DynamicVal, diags
		}

		v, more := decode(d, ctx)
		return v, append(diags, more...)
	})
}

// decodeRuntime returns the value of runtime.NAME.
func (s *scope) decodeRuntime(d *blockDecl, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	shared := *d.body
	shared.Attributes, shared.Blocks = hclsyntax.Attributes{}, nil
	for _, name := range runtimeWords {
		if a := d.body.Attributes[name]; a != nil {
			shared.Attributes[name] = a
		}
	}

	var secretEnv map[string]string
	if a := shared.Attributes["env"]; a != nil {
		if shared.Attributes["env"], secretEnv, diags = splitEnv(a, ctx); diags.HasErrors() {
			return cty.DynamicVal, diags
		}
	}

	diags = append(diags, s.l.sensitiveIn(bodyExpressions(&shared), ctx, nil)...)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	rt := &stage.Runtime{Name: d.name, Range: d.rng(), Address: s.qualify("runtime." + d.name)}
	diags = append(diags, stage.DecodeBody(&shared, ctx, rt)...)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	kind := s.l.runtimes[rt.Kind]
	if kind == nil {
		return cty.DynamicVal, append(diags, errorAt(d.body.Attributes["kind"].Expr.Range(), "Unknown runtime kind",
			"%q is no kind of runtime. Known: %s.", rt.Kind, strings.Join(slices.Sorted(maps.Keys(s.l.runtimes)), ", "))...)
	}

	for _, name := range sortedKeys(shared.Attributes) {
		if a := d.body.Attributes[name]; !kind.Has(name) && !isNull(a.Expr, ctx) {
			stage.AddError(&diags, a.NameRange, "Attribute without effect",
				"Runtimes of kind %s do not use %s; the row would record a value that is not used. Remove it.", rt.Kind, name)
		}
	}

	if more := unusable(rt, d.body, secretEnv); more.HasErrors() {
		return cty.DynamicVal, append(diags, more...)
	}

	own := &stage.Own{What: "a runtime of kind " + rt.Kind, Options: kind.Options, Blocks: kind.Blocks,
		Shared: runtimeWords, At: d.rng(), Secrets: map[string]cty.Value{}}
	options, more := own.Decode(d.body, ctx)
	diags = append(diags, more...)
	rt.Options = options
	rt.KeepSecrets(own.Secrets, secretEnv, slices.Clone(s.l.secrets))

	for name := range secretEnv {
		if rt.Env == nil {
			rt.Env = map[string]string{}
		}
		rt.Env[name] = textutil.Redacted
	}

	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(rt.Name), "kind": cty.StringVal(rt.Kind), "framework": cty.StringVal(rt.Framework),
		"package": cty.StringVal(rt.Package), "requires": cty.StringVal(rt.Requires),
		"ref": cty.CapsuleVal(stage.RuntimeType, rt),
	}), diags
}

// splitEnv returns the env of a runtime with only the values that are not sensitive, and the sensitive
// values by name.
func splitEnv(a *hclsyntax.Attribute, ctx *hcl.EvalContext) (*hclsyntax.Attribute, map[string]string, hcl.Diagnostics) {
	v, diags := a.Expr.Value(ctx)
	if diags.HasErrors() || !v.ContainsMarked() {
		return a, nil, diags
	}

	if v.IsMarked() || !v.CanIterateElements() || !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return nil, nil, errorAt(a.Expr.Range(), "Unsuitable value",
			"env is sensitive as a whole, so its names are hidden with its values. Write env = { NAME = var.secret }.")
	}

	secret, rest := map[string]string{}, map[string]cty.Value{}
	for name, e := range v.Elements() {
		if !e.ContainsMarked() {
			rest[name.AsString()] = e
			continue
		}

		e, _ = e.UnmarkDeep()
		text, err := convert.Convert(e, cty.String)
		if err != nil || !stage.IsText(text) {
			return nil, nil, errorAt(a.Expr.Range(), "Unsuitable value",
				"env has text: the sensitive value of %s is none.", name.AsString())
		}

		secret[name.AsString()] = text.AsString()
	}

	plain := *a
	plain.Expr = &hclsyntax.LiteralValueExpr{Val: cty.ObjectVal(rest), SrcRange: a.Expr.Range()}
	return &plain, secret, nil
}

// runtimeWords are the attributes that runtimes of several kinds share.
var runtimeWords = stage.TagWords(stage.Runtime{})[""]

// isNull reports whether an expression is null, which is equivalent to omitting the attribute.
func isNull(expr hcl.Expression, ctx *hcl.EvalContext) bool {
	v, diags := expr.Value(ctx)
	return !diags.HasErrors() && v.IsKnown() && v.IsNull()
}

type systemBody struct {
	// Name is the name of a shipped spec. The default is the label.
	Name string `hcl:"name,optional"`
	// File is a spec of yours, relative to the file of the block.
	File string `hcl:"file,optional"`
}

// decodeSystem returns the value of system.NAME: the fields of the spec. The members of top-level
// groups are also available without the group, so system.h200_sxm.sm_version and
// system.h200_sxm.gpu.mem_bw both work.
func (s *scope) decodeSystem(d *blockDecl, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	b := systemBody{}
	diags := stage.DecodeBody(d.body, ctx, &b)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	if b.Name == "" {
		b.Name = d.name
	}

	file := b.File
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(s.decl.dir, file)
	}

	spec, err := s.l.opts.Systems(b.Name, file)
	if err != nil {
		at := d.rng()
		for _, name := range []string{"file", "name"} {
			if a := d.body.Attributes[name]; a != nil {
				at = a.Expr.Range()
			}
		}
		return cty.DynamicVal, append(diags, errorAt(at, "Unknown system", "%s", sentence(err))...)
	}

	var fields ctyjson.SimpleJSONValue
	raw, _ := json.Marshal(spec.Object()) // a spec contains numbers, words and objects of them
	_ = json.Unmarshal(raw, &fields)

	attrs := fields.Value.AsValueMap()
	attrs["name"] = cty.StringVal(spec.Name)
	attrs["ref"] = cty.CapsuleVal(stage.SystemType, spec)
	return cty.ObjectVal(attrs), diags
}

// sentence formats an error as the detail of a diagnostic: a capital letter and a full stop.
func sentence(err error) string {
	t := err.Error()
	t = strings.ToUpper(t[:1]) + t[1:]
	if !strings.HasSuffix(t, ".") && !strings.HasSuffix(t, "?") {
		t += "."
	}

	return t
}

// decodeService returns the value of KIND.NAME for a service block.
func (s *scope) decodeService(d *blockDecl, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	own := &stage.Own{What: "a " + d.kind + " block", Options: s.l.services[d.kind].Options,
		Blocks: s.l.services[d.kind].Blocks, At: d.rng()}
	options, diags := own.Decode(d.body, ctx)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	v := &stage.Service{Kind: d.kind, Name: d.name, Address: s.qualify(d.kind + "." + d.name), Options: options,
		Dir: s.decl.dir, Range: d.rng()}

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

// mostWorkers limits the workers per device. Each worker is a process with a framework.
const mostWorkers = 1024

// unusable reports values of a runtime's shared attributes that are invalid on every machine, so
// that they fail at load time and not during a run.
func unusable(b *stage.Runtime, body *hclsyntax.Body, secret map[string]string) (diags hcl.Diagnostics) {
	bad := func(name, summary, format string, args ...any) {
		stage.AddError(&diags, body.Attributes[name].Expr.Range(), summary, format, args...)
	}

	if b.Devices != nil && len(b.Devices) == 0 {
		bad("devices", "No devices", "The list is empty. Without the attribute, the runtime uses all visible GPUs.")
	}

	for i, d := range b.Devices {
		if d < 0 || slices.Contains(b.Devices[:i], d) {
			bad("devices", "Unsuitable devices",
				"Indices of GPUs are different numbers from 0, in PCI bus order; %d is not one, or it is repeated.", d)
		}
	}

	if b.Workers < 0 || b.Workers > mostWorkers {
		bad("workers", "Unsuitable number of workers", "It is %d; a device has from 1 to %d workers.", b.Workers,
			mostWorkers)
	}
	for _, name := range slices.Concat(sortedKeys(b.Env), sortedKeys(secret)) {
		if name == "" || strings.Contains(name, "=") {
			bad("env", "Unsuitable variable", "%q cannot be the name of an environment variable.", name)
		}
	}

	return diags
}
