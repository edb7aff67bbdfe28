package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

var bodySchema = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		// input (reference, required) is the table that the gate judges and passes on unchanged.
		{Name: "input", Required: true},
	},
	Blocks: []hcl.BlockHeaderSchema{
		// check (blocks) is labelled with the name of a check. A gate may use a check several times.
		{Type: "check", LabelNames: []string{"name"}},
		// assert (blocks) is labelled with a name and checks a condition over aggregates.
		{Type: "assert", LabelNames: []string{"name"}},
	},
}

// commonAttributes are accepted in every check and assert block.
var commonAttributes = []hcl.AttributeSchema{
	// severity is "fail" or "warn"; the same in an assert. The default is "fail".
	{Name: "severity"},
	// min_judged (number) is the share of rows that the check must be able to judge, from 0 to 1; the same in an
	// assert. The default is 1.
	{Name: "min_judged"},
}

// DecodeBody implements its own decoding because the set of checks is known only here, and because
// assert conditions use aggregates that get values when the gate runs.
func (c *Config) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	content, diags := body.Content(bodySchema)
	if attr, ok := content.Attributes["input"]; ok {
		ctx, d := eval.Context([]hcl.Expression{attr.Expr}, nil)
		diags = append(diags, d...)

		v, d2 := attr.Expr.Value(ctx)
		if diags = append(diags, d2...); !d.HasErrors() && !d2.HasErrors() {
			ref, err := stage.RefOf(v)
			if err != nil {
				stage.AddError(&diags, attr.Expr.Range(), "Wrong input", "%v", err)
			}
			c.input = ref
		}
	}

	seen := map[string]hcl.Range{}
	for _, b := range content.Blocks {
		e, d := decodeEntry(b, eval)
		if diags = append(diags, d...); d.HasErrors() {
			continue
		}

		if first, dup := seen[e.name]; dup {
			e.name = fmt.Sprintf("%s (line %d)", e.name, b.DefRange.Start.Line)
			if b.Type == "assert" {
				stage.AddError(&diags, b.DefRange, "Duplicate assert", "Line %d has an assert of this name.",
					first.Start.Line)
			}
		}

		seen[e.name] = b.DefRange
		c.entries = append(c.entries, e)
	}

	if len(content.Blocks) == 0 {
		stage.AddError(&diags, body.MissingItemRange(), "Gate without checks",
			"A gate needs at least one check or assert block; without one it would let everything through.")
	}

	return diags
}

// conditional is implemented by checks with a condition that is evaluated when the gate runs.
type conditional interface {
	// later returns the names in a condition that get their values when the gate runs.
	later(condition hcl.Expression) []string
	// bind validates the condition, which has that text. ctx has the values of the plan.
	bind(text string, ctx *hcl.EvalContext) hcl.Diagnostics
}

func decodeEntry(b *hcl.Block, eval stage.Evaluator) (entry, hcl.Diagnostics) {
	e := entry{
		name:      b.Labels[0],
		kind:      b.Type,
		severity:  SeverityFail,
		minJudged: 1,
		check:     &assertion{},
		block:     b.DefRange,
	}
	if b.Type == "check" {
		all := specs()
		at := slices.IndexFunc(all, func(s spec) bool { return s.name == e.name })
		if at < 0 {
			var names []string
			for _, s := range all {
				names = append(names, s.name)
			}
			return e, stage.ErrorAt(b.LabelRanges[0], "Unknown check", "There is no check %q.%s The checks are: %s.", e.name,
				textutil.DidYouMean(e.name, names), strings.Join(names, ", "))
		}
		e.kind, e.check = e.name, all[at].check
	}

	c, conditioned := e.check.(conditional)
	var bound map[string]bool
	var text string
	if conditioned {
		schema, _ := gohcl.ImpliedBodySchema(e.check)
		for i, a := range schema.Attributes { // gohcl takes expressions as optional
			schema.Attributes[i].Required = a.Required || a.Name == "condition"
		}
		schema.Attributes = append(schema.Attributes, commonAttributes...)
		content, diags := b.Body.Content(schema)
		if diags.HasErrors() { // the condition may be there under a misspelled name
			return e, diags
		}
		condition := content.Attributes["condition"].Expr
		text, bound = oneLine(eval.Text(condition.Range())), map[string]bool{}
		for _, name := range c.later(condition) {
			bound[name] = true
		}
	}

	ctx, diags := eval.Context(stage.Expressions(b.Body), bound)
	if diags.HasErrors() {
		return e, diags
	}

	rest, diags := e.common(b.Body, ctx)
	if !diags.HasErrors() {
		diags = append(diags, stage.DecodeBody(rest, ctx, e.check)...)
	}

	if conditioned && !diags.HasErrors() {
		diags = append(diags, c.bind(text, ctx)...)
	}

	if diags.HasErrors() {
		return e, diags
	}

	if l, ok := e.check.(limited); ok {
		l.prepare(stage.Errors(&diags, b.DefRange))
	}
	if t, ok := e.check.(titled); ok {
		e.name = t.title()
	}
	return e, diags
}

// common decodes the attributes that all blocks share. It returns the rest of the body.
func (e *entry) common(body hcl.Body, ctx *hcl.EvalContext) (hcl.Body, hcl.Diagnostics) {
	content, rest, diags := body.PartialContent(&hcl.BodySchema{Attributes: commonAttributes})
	if a, ok := content.Attributes["severity"]; ok {
		d := gohcl.DecodeExpression(a.Expr, ctx, &e.severity)
		if diags = append(diags, d...); !d.HasErrors() && e.severity != SeverityFail && e.severity != SeverityWarn {
			stage.AddError(&diags, a.Expr.Range(), "Unknown severity",
				"severity is %q; it must be \"fail\" or \"warn\".", e.severity)
		}
	}

	if a, ok := content.Attributes["min_judged"]; ok {
		d := gohcl.DecodeExpression(a.Expr, ctx, &e.minJudged)
		if diags = append(diags, d...); !d.HasErrors() && !(e.minJudged >= 0 && e.minJudged <= 1) {
			stage.AddError(&diags, a.Expr.Range(), "Wrong share",
				"min_judged is %s; a share is between 0 and 1: 1 requires every row to be judged, 0 accepts that none is.",
				number(e.minJudged))
		}
	}

	return rest, diags
}

// Defaults returns the checks by name with their default attributes: pointers to structs with gohcl tags.
func Defaults() map[string]any {
	out := map[string]any{}
	for _, s := range specs() {
		out[s.name] = s.check
	}
	return out
}

// Words implements stage.BodyDecoder. It returns the blocks and, under "check NAME", the attributes of each
// check beyond the common ones.
func (c *Config) Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	out.Add("", bodySchema)
	out.Add("check", &hcl.BodySchema{Attributes: commonAttributes})
	out["assert"] = stage.TagWords(&assertion{})[""]
	for _, s := range specs() {
		out["check "+s.name] = stage.TagWords(s.check)[""]
	}
	return out
}
