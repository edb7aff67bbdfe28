package stage

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"aicplan/sink/base/textutil"
)

// DidYouMean returns the end of a message about an unknown name: " Did you mean ...?" if a candidate is similar,
// otherwise the list of candidates if there are at most 12, otherwise "".
func DidYouMean(given string, candidates []string) string {
	if near := textutil.Nearest(given, candidates); near != "" {
		return " Did you mean " + Quoted(near) + "?"
	}
	if len(candidates) == 0 || len(candidates) > 12 {
		return ""
	}
	return " Known: " + strings.Join(slices.Sorted(slices.Values(candidates)), ", ") + "."
}

// Quoted returns the text in double quotes. An address with a key is put in single quotes instead,
// so that it can be pasted into a shell.
func Quoted(name string) string {
	if strings.Contains(name, `"`) && !strings.ContainsAny(name, "'\n") {
		return "'" + name + "'"
	}
	return strconv.Quote(name)
}

// Own describes the options and blocks of a body that a registration declares and not struct tags.
type Own struct {
	What    string // the owner in messages: "a runtime of kind cpu"
	Options []Option
	Blocks  []Block
	// Shared are the attributes and blocks that the caller decodes.
	Shared []string
	// At is the range for errors about a missing option.
	At hcl.Range
	// Secrets receives the values of secret options. It is nil if there are none.
	Secrets map[string]cty.Value
}

// Decode evaluates the attributes and blocks in body that are not shared: options by their types, blocks as
// objects. Null means not set.
func (o *Own) Decode(body *hclsyntax.Body, ctx *hcl.EvalContext) (map[string]cty.Value, hcl.Diagnostics) {
	attrs := hclsyntax.Attributes{}
	for name, a := range body.Attributes {
		if !slices.Contains(o.Shared, name) {
			attrs[name] = a
		}
	}

	out, diags := o.options(attrs, ctx)
	seen := map[string]bool{}
	for _, found := range body.Blocks {
		if slices.Contains(o.Shared, found.Type) {
			continue
		}
		b := blockNamed(o.Blocks, found.Type)
		at := found.DefRange()
		switch {
		case b == nil:
			var names []string
			for _, b := range o.Blocks {
				names = append(names, b.Name)
			}
			AddError(&diags, at, "Unsupported block type", "%s has no block %q.%s", sentence(o.What), found.Type,
				DidYouMean(found.Type, names))
			continue
		case seen[b.Name]:
			AddError(&diags, at, "Duplicate block", "%s has one block %s.", sentence(o.What), b.Name)
			continue
		case len(found.Labels) > 0:
			AddError(&diags, found.LabelRanges[0], "Extraneous label", "A block %s has no label.", b.Name)
			continue
		}

		seen[b.Name] = true
		in := &Own{What: "a block " + b.Name, Options: b.Options, At: at}
		values, more := in.Decode(found.Body, ctx)
		diags = append(diags, more...)
		out[b.Name] = cty.ObjectVal(values)
	}

	return out, diags
}

func (o *Own) options(attrs hclsyntax.Attributes, ctx *hcl.EvalContext) (map[string]cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	out := map[string]cty.Value{}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		a := attrs[name]
		i := slices.IndexFunc(o.Options, func(o Option) bool { return o.Name == name })
		if i < 0 {
			AddError(&diags, a.NameRange, "Unsupported argument", "%s has no %q.%s", sentence(o.What), name, o.hint(name))
			continue
		}
		v, more := a.Expr.Value(ctx)
		diags = append(diags, more...)
		if more.HasErrors() || v.IsNull() {
			continue
		}
		secret := o.Options[i].Secret
		if v.ContainsMarked() && !secret {
			diags = append(diags, SensitiveHere(a.Expr.Range(), name)...)
			continue
		}
		v, _ = v.UnmarkDeep()
		v, err := o.Options[i].take(v)
		if err != nil {
			AddError(&diags, a.Expr.Range(), "Wrong option", "%s: %s.", name, err)
			continue
		}
		if secret {
			o.Secrets[name] = v
			continue
		}
		out[name] = v
	}

	for _, opt := range o.Options {
		if _, given := out[opt.Name]; opt.Required && !given && !diags.HasErrors() {
			AddError(&diags, o.At, "Missing option", "%s needs %s: %s.", sentence(o.What), opt.Name, opt.Doc)
		}
	}

	return out, diags
}

// hint suggests the intended name, or lists the valid ones.
func (o *Own) hint(name string) string {
	var own []string
	for _, opt := range o.Options {
		own = append(own, opt.Name)
	}
	slices.Sort(own)
	if text := DidYouMean(name, slices.Concat(own, o.Shared)); strings.HasPrefix(text, " Did") || len(own) == 0 {
		return text
	}
	return " Its options are " + strings.Join(own, ", ") + "."
}

// take converts a value to the option's type and checks it.
func (o *Option) take(v cty.Value) (cty.Value, error) {
	if o.Type != cty.DynamicPseudoType && o.Type != cty.NilType {
		conv, err := convert.Convert(v, o.Type)
		switch what := textutil.WithArticle(o.Type.FriendlyName()); {
		case err == nil:
		case IsText(v) && !o.Secret:
			return v, fmt.Errorf("it must be %s, not %q", what, v.AsString())
		case o.Type.IsPrimitiveType(): // the cause would only repeat the type
			return v, fmt.Errorf("it must be %s, not %s", what, textutil.WithArticle(v.Type().FriendlyName()))
		default:
			return v, fmt.Errorf("it must be %s: %w", what, err)
		}
		v = conv
	}

	if len(o.OneOf) > 0 && v.IsKnown() && v.Type() == cty.String && !slices.Contains(o.OneOf, v.AsString()) {
		return v, fmt.Errorf("%q is not one of %s", v.AsString(), strings.Join(o.OneOf, ", "))
	}
	return v, o.CheckTexts(v)
}

// CheckTexts applies Check to a text or to those of a list.
func (o *Option) CheckTexts(v cty.Value) error {
	if o.Check == nil {
		return nil
	}
	return cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if IsText(v) && v.AsString() != "" { // an empty text means not set
			return true, o.Check(v.AsString())
		}
		return true, nil
	})
}

// Time checks an option that is a duration above zero.
func Time(text string) error {
	if d, err := time.ParseDuration(text); err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time above zero, such as \"90s\" or \"15m\"", text)
	}
	return nil
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
