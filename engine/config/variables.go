package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// EnvPrefix is the prefix of environment variables that set plan variables.
const EnvPrefix = "AICPLAN_VAR_"

// givenValue is a value from outside the plan. It is converted when used, because its meaning
// depends on the declared type.
type givenValue struct {
	text  string         // from a flag or an environment variable, otherwise empty
	expr  hcl.Expression // from a file, or the parsed text; nil if it has syntax errors
	diags hcl.Diagnostics
	rng   hcl.Range
}

// given parses the value of a flag or an environment variable.
func (s *sources) given(text string, rng hcl.Range) givenValue {
	g := givenValue{text: text, rng: rng}
	if expr, diags := expression(text, rng.Filename); diags.HasErrors() {
		g.diags = diags
	} else {
		g.expr = expr
	}
	return g
}

// convert converts a value to the declared type and fills in optional attributes. It returns an error
// if an object has an attribute that the type does not declare.
func (d *variableDecl) convert(v cty.Value) (cty.Value, error) {
	// Defaults may be at any depth of an object, so with defaults a partly sensitive value becomes
	// sensitive as a whole.
	v, paths := v.UnmarkDeepWithPaths()
	if err := checkAttributes(v, d.typ, nil); err != nil {
		return v, err
	}

	if d.defaults != nil && v.IsKnown() && !v.IsNull() {
		v = d.defaults.Apply(v)
	}

	out, err := convert.Convert(v, d.typ)
	if err != nil {
		return v, err
	}

	if d.defaults == nil {
		if same, err := convert.Convert(v.MarkWithPaths(paths), d.typ); err == nil {
			return same, nil
		}
	}

	if len(paths) > 0 {
		out = out.Mark(stage.Sensitive)
	}

	return out, nil
}

// readVariables collects the values of the root variables. In ascending precedence they come from
// the environment, files next to the plan, --var-file, --var, Options.Optional and Options.Given.
func (l *loader) readVariables(root *moduleDecl) (map[string]givenValue, hcl.Diagnostics) {
	out := map[string]givenValue{}
	var diags hcl.Diagnostics
	// declared reports whether a variable exists, and adds a diagnostic if not.
	declared := func(name string, at hcl.Range, severity hcl.DiagnosticSeverity) bool {
		if root.variables[name] != nil {
			return true
		}

		effect := "."
		if severity == hcl.DiagWarning {
			effect = "; the value is ignored."
		}

		d := errorAt(at, "Value for an undeclared variable", "The plan has no variable %q%s%s", name, effect,
			didYouMean(name, namesOf(root.variables)))
		d[0].Severity = severity
		diags = append(diags, d...)
		return false
	}

	fromFile := func(name string, a *hcl.Attribute) {
		out[name] = givenValue{expr: a.Expr, rng: l.hide(root, name, a.Expr.Range(), shortRange(a.Range), name+" = ")}
	}

	for _, kv := range l.opts.Environ {
		env, value, ok := strings.Cut(kv, "=")
		name, ours := strings.CutPrefix(env, EnvPrefix)
		if !ok || !ours {
			continue
		}
		if at := l.src.text(env, value); declared(name, at, hcl.DiagWarning) {
			out[name] = l.src.given(value, l.hide(root, name, at, env, ""))
		}
	}

	for _, path := range append(autoVarFiles(root.dir), l.opts.VarFiles...) {
		f, more := l.src.file(path)
		diags = append(diags, more...)
		if f == nil || more.HasErrors() {
			continue
		}

		attrs, more := f.Body.JustAttributes()
		diags = append(diags, more...)
		for _, name := range sortedKeys(attrs) {
			if a := attrs[name]; declared(name, a.NameRange, hcl.DiagWarning) {
				fromFile(name, a)
			}
		}
	}

	for _, kv := range l.opts.Vars {
		name, value, ok := strings.Cut(kv, "=")
		name = strings.TrimSpace(name)
		flag := strings.TrimSpace("--var " + name)
		rng := l.src.text(flag, kv)
		if !ok || name == "" {
			stage.AddError(&diags, rng, "Invalid --var", "Write --var 'NAME=VALUE', not %q.", kv)
			if v := root.variables[name]; v != nil {
				v.broken = true // suppresses the follow-up error that it has no value
			}
			continue
		}

		if !declared(name, rng, hcl.DiagError) {
			continue
		}

		rng = l.hide(root, name, rng, flag, name+"=")
		if root.variables[name].sensitive {
			diags = append(diags, stage.WarningAt(
				rng,
				"Sensitive value on the command line",
				"Others on this machine can read it in the list of processes, and shells keep it in their history. Give it as "+
					"%s%s, or in a file with --var-file.",
				EnvPrefix,
				name,
			)...)
		}

		out[name] = l.src.given(value, rng)
	}

	for name, a := range l.opts.Optional {
		if root.variables[name] != nil {
			fromFile(name, a)
		}
	}

	for _, name := range sortedKeys(l.opts.Given) {
		if a := l.opts.Given[name]; declared(name, a.NameRange, hcl.DiagError) {
			fromFile(name, a)
		}
	}

	return out, diags
}

// hide returns the range of a variable's value for diagnostics. For a sensitive variable, the range
// shows a redacted text.
func (l *loader) hide(root *moduleDecl, name string, at hcl.Range, place, before string) hcl.Range {
	if !root.variables[name].sensitive {
		return at
	}
	return l.src.text(place, before+textutil.Redacted)
}

// Summaries of diagnostics about values of variables.
const (
	badValue     = "Unsuitable value for variable"
	invalidValue = "Invalid value for variable"
	noValue      = "No value for variable"
)

// rootVariable returns the value of a variable of the root module.
func (s *scope) rootVariable(d *variableDecl) (cty.Value, hcl.Diagnostics) {
	g, given := s.l.rootVars[d.name]
	if !given {
		if d.broken { // already reported
			return cty.DynamicVal, nil
		}
		if d.hasDefault {
			return d.def, s.validateVariable(d, d.def, d.rng)
		}
		if d.sensitive {
			return cty.DynamicVal, errorAt(
				d.rng,
				noValue,
				"The plan needs var.%s%s. It is sensitive, so no saved plan and no record has it. Give it as %s%s, or in a file "+
					"with --var-file.",
				d.name,
				descriptionOf(d),
				EnvPrefix,
				d.name,
			)
		}

		return cty.DynamicVal, errorAt(d.rng, noValue,
			"The plan needs var.%s%s. Give it with --var '%s=...', in a file with --var-file, or as %s%s.",
			d.name, descriptionOf(d), d.name, EnvPrefix, d.name)
	}

	v, diags := g.value(d, s.l)
	if d.sensitive && diags.HasErrors() {
		return cty.DynamicVal, errorAt(g.rng, badValue,
			"var.%s is %s, and its value cannot be read as one. It is sensitive, so it is not shown.",
			d.name, TypeText(d.typ))
	}
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	conv, err := d.convert(v)
	if err != nil {
		at, hint := g.rng, ""
		if !d.sensitive {
			at, hint = g.place(err), g.asList(d, v)
		}
		return cty.DynamicVal, append(diags, errorAt(at, badValue, "%s", d.unsuitable("var."+d.name, err)+hint)...)
	}

	return conv, append(diags, s.validateVariable(d, conv, g.rng)...)
}

// place returns the range of the part of the given value to which a conversion error belongs.
func (g givenValue) place(err error) hcl.Range {
	if g.expr == nil {
		return g.rng
	}
	return elementRange(g.expr, err)
}

// value evaluates the given value. A text is returned as is for a primitive type, otherwise parsed
// as an expression, so --var 'tp=[1,2]' and --var 'name=a' both work.
func (g givenValue) value(d *variableDecl, l *loader) (cty.Value, hcl.Diagnostics) {
	ctx := &hcl.EvalContext{Functions: l.functions}
	if g.text == "" && g.expr != nil {
		return g.expr.Value(ctx)
	}
	if d.typ == cty.String || d.typ == cty.Number || d.typ == cty.Bool {
		return cty.StringVal(g.text), nil
	}

	diags := g.diags
	if g.expr != nil {
		v, more := g.expr.Value(ctx)
		if !more.HasErrors() {
			return v, g.surprising(d, v)
		}
		diags = more
	}

	if d.typ == cty.DynamicPseudoType {
		return cty.StringVal(g.text), nil
	}

	return cty.DynamicVal, errorAt(g.rng, badValue,
		"var.%s is %s, and %q cannot be read as one.%s", d.name, TypeText(d.typ), g.text,
		g.hint(d, diags[0].Detail))
}

// surprising warns if an untyped variable gets a text that is parsed as a number with a different
// spelling, such as the version 1.10 or a date.
func (g givenValue) surprising(d *variableDecl, v cty.Value) hcl.Diagnostics {
	if d.typ != cty.DynamicPseudoType || d.sensitive || v.IsNull() || !v.IsKnown() ||
		v.Type() != cty.Number {
		return nil
	}
	text, err := convert.Convert(v, cty.String)
	if err != nil || text.AsString() == strings.TrimSpace(g.text) {
		return nil
	}

	return stage.WarningAt(
		g.rng,
		"Text read as a number",
		"var.%s has no type, so %q is the number %s. For the text, declare type = string or give '%s=%q'; for the number, "+
			"declare type = number.",
		d.name,
		g.text,
		text.AsString(),
		d.name,
		g.text,
	)
}

// hint describes how to write a value that could not be parsed.
func (g givenValue) hint(d *variableDecl, why string) string {
	if list := g.asList(d, cty.StringVal(g.text)); list != "" && !strings.ContainsAny(g.text, "[](){}\"") {
		return list
	}
	if g.expr != nil && len(g.expr.Variables()) > 0 && strings.Contains(TypeText(d.typ), "string") {
		return " Write texts in double quotes. A shell removes them unless single quotes are around the whole argument."
	}
	return " " + why
}

// asList shows how to write a single value as a list if the variable is a list or set. It returns
// "" if that is not the problem.
func (g givenValue) asList(d *variableDecl, v cty.Value) string {
	if g.text == "" || !d.typ.IsListType() && !d.typ.IsSetType() || !v.IsKnown() || v.IsNull() ||
		!v.Type().IsPrimitiveType() {
		return ""
	}
	text := g.text
	if d.typ.ElementType() == cty.String && !strings.HasPrefix(text, "\"") {
		parts := strings.Split(text, ",")
		for i, p := range parts {
			parts[i] = strconv.Quote(strings.TrimSpace(p))
		}
		text = strings.Join(parts, ", ")
	}

	return fmt.Sprintf(" Write a list: '%s=[%s]'.", d.name, text)
}

// validateVariable runs the validation blocks of a variable.
func (s *scope) validateVariable(d *variableDecl, v cty.Value, at hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if !v.IsWhollyKnown() {
		return nil
	}

	if d.sensitive {
		v = v.Mark(stage.Sensitive)
	}
	s.memo["var."+d.name] = memoized{value: v} // for the conditions; the caller caches the variable later
	for _, val := range d.validations {
		ctx, more := s.context([]hcl.Expression{val.Condition, val.ErrorMessage}, nil, nil)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}

		diags = append(diags, Check(val).judge(ctx, at, invalidValue, "var."+d.name+": ")...)
	}

	return diags
}

// Check is a condition with the text of the error if it is not true.
type Check struct{ Condition, ErrorMessage hcl.Expression }

// judge returns an error with the given place, summary and beginning if the condition is not true.
func (c Check) judge(ctx *hcl.EvalContext, at hcl.Range, summary, begin string) hcl.Diagnostics {
	met, diags := c.Condition.Value(ctx)
	if diags.HasErrors() {
		return diags
	}

	met, _ = met.Unmark()
	if met.IsNull() || !met.IsKnown() || met.Type() != cty.Bool {
		return append(diags, errorAt(c.Condition.Range(), "Invalid condition",
			"The condition must be true or false, and known before anything runs.")...)
	}
	if met.True() {
		return diags
	}

	text, more := c.ErrorMessage.Value(ctx)
	message := "The condition at " + shortRange(c.Condition.Range()) + " is false."
	switch {
	case text.IsMarked():
		message += " Its message contains the sensitive value, so it is not shown."
	case !more.HasErrors() && stage.IsText(text):
		message = text.AsString()
	}

	bad := errorAt(at, summary, "%s", begin+message)
	bad[0].Expression, bad[0].EvalContext = c.Condition, ctx
	return slices.Concat(diags, more, bad)
}
