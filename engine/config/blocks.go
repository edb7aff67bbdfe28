package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

type runtimeBody struct {
	Kind          string            `hcl:"kind"`
	Framework     string            `hcl:"framework,optional"`
	Package       string            `hcl:"package,optional"`
	Requires      string            `hcl:"requires,optional"`
	Env           map[string]string `hcl:"env,optional"`
	Devices       []int             `hcl:"devices,optional"`
	Workers       int               `hcl:"workers,optional"`
	Python        string            `hcl:"python,optional"`
	CollectorRoot string            `hcl:"collector_root,optional"`
	Path          []string          `hcl:"path,optional"`
	Image         string            `hcl:"image,optional"`
	ImageDigest   string            `hcl:"image_digest,optional"`
	Launcher      []string          `hcl:"launcher,optional"`
	Rest          hcl.Body          `hcl:",remain"`
}

// block returns the value of a block that is no stage, such as runtime.NAME.
func (s *scope) block(root, name string, rng hcl.Range,
	decode func(d *blockDecl) (cty.Value, hcl.Diagnostics)) (cty.Value, hcl.Diagnostics) {
	d, ok := s.decl.blocks[root][name]
	if !ok {
		return cty.DynamicVal, s.undeclared(root, name, rng, namesOf(s.decl.blocks[root]))
	}
	return s.once(root+"."+name, d.rng(), func() (cty.Value, hcl.Diagnostics) { return decode(d) })
}

// decodeRuntime returns the value of runtime.NAME.
func (s *scope) decodeRuntime(d *blockDecl) (cty.Value, hcl.Diagnostics) {
	ctx, diags := s.context(bodyExpressions(d.body), nil, nil)
	if diags.HasErrors() || s.consequence(bodyExpressions(d.body), ctx) {
		return cty.DynamicVal, diags
	}

	var b runtimeBody
	body, secretEnv, more := s.secretEnv(d.body, ctx)
	if diags = append(diags, more...); more.HasErrors() {
		return cty.DynamicVal, diags
	}

	for _, name := range sortedKeys(body.Attributes) {
		if a := body.Attributes[name]; slices.Contains(runtimeWords, name) {
			diags = append(diags, s.l.sensitiveIn([]hcl.Expression{a.Expr}, ctx, nil)...)
		}
	}

	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	diags = append(diags, stage.DecodeBody(body, ctx, &b)...)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	kind := s.l.runtimeKind(b.Kind)
	if kind == nil {
		return cty.DynamicVal, append(diags, errorAt(d.body.Attributes["kind"].Expr.Range(), "Unknown runtime kind",
			fmt.Sprintf("%q is no kind of runtime.%s", b.Kind, didYouMean(b.Kind, s.l.runtimeKinds()))))
	}

	for _, name := range sortedKeys(d.body.Attributes) {
		a := d.body.Attributes[name]
		if slices.Contains(runtimeWords, name) && !kind.Has(name) && !isNull(a.Expr, ctx) {
			diags = append(diags, errorAt(a.NameRange, "Attribute without effect",
				fmt.Sprintf("Runtimes of kind %s do not use %s; the row would record a value that is not used. Remove it.", b.Kind, name)))
		}
	}

	if more := b.unusable(d.body, secretEnv); more.HasErrors() {
		return cty.DynamicVal, append(diags, more...)
	}

	rt := &stage.Runtime{
		Name: d.name, Kind: b.Kind, Framework: b.Framework, Package: b.Package, Requires: b.Requires, Env: b.Env,
		Devices: b.Devices, Workers: b.Workers, Python: b.Python, CollectorRoot: b.CollectorRoot, Path: b.Path,
		Image: b.Image, ImageDigest: b.ImageDigest, Launcher: b.Launcher,
		Range: d.rng(), Address: s.qualify("runtime." + d.name),
	}

	own := &stage.Own{What: "a runtime of kind " + b.Kind, Options: kind.Options, Blocks: kind.Blocks,
		Shared: runtimeWords, At: d.rng(), Suggest: didYouMean, Secrets: map[string]cty.Value{}}
	options, more := own.Decode(d.body, ctx)
	diags = append(diags, more...)
	rt.Options = options
	rt.KeepSecrets(own.Secrets, secretEnv, slices.Clone(s.l.secrets))

	for _, name := range sortedKeys(secretEnv) {
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

// secretEnv splits the env of a runtime: it returns a body in which env has only the values that
// are not sensitive, and the sensitive values by name.
func (s *scope) secretEnv(body *hclsyntax.Body,
	ctx *hcl.EvalContext) (*hclsyntax.Body, map[string]string, hcl.Diagnostics) {
	a, ok := body.Attributes["env"]
	if !ok {
		return body, nil, nil
	}

	v, diags := a.Expr.Value(ctx)
	if diags.HasErrors() {
		return body, nil, diags
	}
	if !v.ContainsMarked() {
		return body, nil, nil
	}

	bad := func(detail string) (*hclsyntax.Body, map[string]string, hcl.Diagnostics) {
		return body, nil, hcl.Diagnostics{errorAt(a.Expr.Range(), "Unsuitable value", detail)}
	}

	if v.IsMarked() || !v.CanIterateElements() || !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return bad("env is sensitive as a whole, so its names are hidden with its values. Write env = { NAME = var.secret }.")
	}

	secret, rest := map[string]string{}, map[string]cty.Value{}
	for it := v.ElementIterator(); it.Next(); {
		name, e := it.Element()
		if !e.ContainsMarked() {
			rest[name.AsString()] = e
			continue
		}

		e, _ = e.UnmarkDeep()
		text, err := convert.Convert(e, cty.String)
		if err != nil || !text.IsKnown() || text.IsNull() {
			return bad(fmt.Sprintf("env has text: the sensitive value of %s is none.", name.AsString()))
		}

		secret[name.AsString()] = text.AsString()
	}

	copied := *body
	copied.Attributes = maps.Clone(body.Attributes)
	left := *a
	left.Expr = &hclsyntax.LiteralValueExpr{Val: cty.ObjectVal(rest), SrcRange: a.Expr.Range()}
	copied.Attributes["env"] = &left

	return &copied, secret, nil
}

// runtimeWords are the attributes that runtimes of several kinds share.
var runtimeWords = stage.TagWords(runtimeBody{})[""]

// isNull reports whether an expression is null, which is equivalent to omitting the attribute.
func isNull(expr hcl.Expression, ctx *hcl.EvalContext) bool {
	v, diags := expr.Value(ctx)
	return !diags.HasErrors() && v.IsKnown() && v.IsNull()
}

// runtimeKind returns the kind with the given name, or nil.
func (l *loader) runtimeKind(name string) *stage.RuntimeKind {
	for i := range l.opts.Runtimes {
		if k := &l.opts.Runtimes[i]; k.Name == name {
			return k
		}
	}
	return nil
}

func (l *loader) runtimeKinds() []string {
	var out []string
	for _, k := range l.opts.Runtimes {
		out = append(out, k.Name)
	}
	return out
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
func (s *scope) decodeSystem(d *blockDecl) (cty.Value, hcl.Diagnostics) {
	ctx, diags := s.context(bodyExpressions(d.body), nil, nil)
	if diags.HasErrors() || s.consequence(bodyExpressions(d.body), ctx) {
		return cty.DynamicVal, diags
	}

	b := systemBody{}
	diags = append(diags, stage.DecodeBody(d.body, ctx, &b)...)
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
		if a, ok := d.body.Attributes["name"]; ok {
			at = a.Expr.Range()
		} else if a, ok := d.body.Attributes["file"]; ok {
			at = a.Expr.Range()
		}

		return cty.DynamicVal, append(diags, errorAt(at, "Unknown system", sentence(err)))
	}

	attrs := map[string]cty.Value{}
	for k, v := range spec.Object() {
		attrs[k] = toCty(v)
	}

	attrs["name"] = cty.StringVal(spec.Name)
	attrs["ref"] = cty.CapsuleVal(stage.SystemType, spec)
	return cty.ObjectVal(attrs), diags
}

// toCty converts the plain values of a system spec.
func toCty(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case int:
		return cty.NumberIntVal(int64(v))
	case int64:
		return cty.NumberIntVal(v)
	case float64:
		return cty.NumberFloatVal(v)
	case map[string]any:
		m := map[string]cty.Value{}
		for k, e := range v {
			m[k] = toCty(e)
		}
		return cty.ObjectVal(m)

	case nil:
		return cty.NullVal(cty.DynamicPseudoType)
	}
	panic(fmt.Sprintf("system spec holds a %T", v))
}

// sentence formats an error as the detail of a diagnostic: a capital letter and a full stop.
func sentence(err error) string {
	t := err.Error()
	if t == "" {
		return ""
	}

	t = strings.ToUpper(t[:1]) + t[1:]
	if !strings.HasSuffix(t, ".") && !strings.HasSuffix(t, "?") {
		t += "."
	}

	return t
}
