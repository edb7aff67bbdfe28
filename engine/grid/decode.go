package grid

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// partBlocks are the blocks of a grid, a case_set and a compound sweep.
var partBlocks = []hcl.BlockHeaderSchema{
	{Type: "axis", LabelNames: []string{"name"}},
	{Type: "rows", LabelNames: []string{"name"}},
	{Type: "derive", LabelNames: []string{"name"}},
	{Type: "filter", LabelNames: []string{"name"}},
}

var (
	gridSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "op", Required: true}, {Name: "perf_table"}, {Name: "columns"},
			{Name: "description"}, {Name: "constants"}, {Name: "loop_order"},
		},
		Blocks: append([]hcl.BlockHeaderSchema{
			{Type: "case_set", LabelNames: []string{"name"}},
			{Type: "sweep", LabelNames: []string{"name"}},
			{Type: "distinct"},
		}, partBlocks...),
	}
	caseSetSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "description"}, {Name: "loop_order"}},
		Blocks:     partBlocks,
	}
	sweepSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "values"}, {Name: "columns"}, {Name: "description"}, {Name: "loop_order"}},
		Blocks: append([]hcl.BlockHeaderSchema{
			{Type: "case_set", LabelNames: []string{"name"}}, {Type: "distinct"}}, partBlocks...),
	}
	axisSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "values", Required: true}, {Name: "description"}},
	}
	deriveSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "value", Required: true}, {Name: "description"}},
	}
	filterSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "keep", Required: true}, {Name: "reason", Required: true}},
	}
	distinctSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "by"}, {Name: "prefer"}, {Name: "of"}},
	}
)

// Decode reads the body of a grid block and checks everything that can be
// checked without expanding it. The spec is nil exactly when the diagnostics
// have errors. Every diagnostic has a Subject.
func Decode(body hcl.Body, eval Evaluator) (spec *Spec, diags hcl.Diagnostics) {
	rng := body.MissingItemRange()
	defer recoverTo(&diags, rng, func() { spec = nil })
	d := &decoder{eval: eval}
	spec = d.grid(body)
	if !d.diags.HasErrors() {
		d.resolve(spec, nil)
	}
	if !d.diags.HasErrors() && spec.Sweep != nil {
		d.resolve(spec.Sweep, spec)
	}
	diags = located(d.diags, rng)
	if diags.HasErrors() {
		return nil, diags
	}
	return spec, diags
}

// recoverTo turns a panic of a library into a diagnostic: no plan text may
// bring the program down.
func recoverTo(diags *hcl.Diagnostics, rng hcl.Range, then func()) {
	if p := recover(); p != nil {
		*diags = append(*diags, errorAt(rng, "Grid cannot be evaluated",
			fmt.Sprintf("Evaluating this block failed in an unexpected way: %v. Please report this as a fault of aicplan, with the block.", p)))
		then()
	}
}

type decoder struct {
	eval  Evaluator
	diags hcl.Diagnostics
}

// part is what a grid, a case_set or a sweep have in common.
type part struct {
	name, description string
	rng               hcl.Range
	rows, axes        []*Dim
	derives           []*Derive
	filters           []*Filter
	loopOrder         []string
	loopRanges        []hcl.Range
	loopRange         hcl.Range
}

func (d *decoder) errorf(rng hcl.Range, summary, format string, args ...any) {
	d.diags = append(d.diags, errorAt(rng, summary, fmt.Sprintf(format, args...)))
}

func (d *decoder) grid(body hcl.Body) *Spec {
	content, diags := body.Content(gridSchema)
	d.diags = append(d.diags, diags...)
	spec := &Spec{Range: body.MissingItemRange()}
	spec.Op = d.str(content.Attributes["op"])
	spec.Perf = d.str(content.Attributes["perf_table"])
	spec.Description = d.str(content.Attributes["description"])
	if a := content.Attributes["op"]; a != nil {
		spec.Range = a.NameRange
		if spec.Op == "" && !d.diags.HasErrors() {
			d.errorf(a.Expr.Range(), "Empty op", "A grid's op names the operation to measure, for example \"gemm\".")
		}
	}
	d.constants(spec, content.Attributes["constants"])

	common := d.part(content, "")
	var sets []*part
	var sweeps hcl.Blocks
	for _, b := range content.Blocks {
		switch b.Type {
		case "case_set":
			sets = append(sets, d.caseSet(b, sets))
		case "sweep":
			sweeps = append(sweeps, b)
		}
	}
	d.assemble(spec, common, sets)
	d.columns(spec, content, common, sets)
	d.distinct(spec, content.Blocks)
	if len(sweeps) > 0 {
		spec.Sweep = d.sweep(sweeps)
	}
	return spec
}

func (d *decoder) caseSet(b *hcl.Block, before []*part) *part {
	content, diags := b.Body.Content(caseSetSchema)
	d.diags = append(d.diags, diags...)
	for _, p := range before {
		if p.name == b.Labels[0] {
			d.errorf(b.LabelRanges[0], "Duplicate case_set", "A case_set %q stands at %s already.", p.name, place(p.rng))
		}
	}
	p := d.part(content, b.Labels[0])
	p.rng = b.DefRange
	return p
}

// part decodes the axes, rows, derives and filters of one body.
func (d *decoder) part(content *hcl.BodyContent, set string) *part {
	p := &part{name: set, rng: content.MissingItemRange}
	p.description = d.str(content.Attributes["description"])
	if a := content.Attributes["loop_order"]; a != nil {
		p.loopOrder, p.loopRanges = d.names(a)
		p.loopRange = a.Expr.Range()
	}
	for _, b := range content.Blocks {
		switch b.Type {
		case "axis":
			if dim := d.axis(b); dim != nil {
				dim.set = set
				p.axes = append(p.axes, dim)
			}
		case "rows":
			if dim := d.rows(b); dim != nil {
				dim.set = set
				p.rows = append(p.rows, dim)
			}
		case "derive":
			p.derives = append(p.derives, d.derive(b))
		case "filter":
			p.filters = append(p.filters, d.filter(b, set))
		}
	}
	return p
}

func (d *decoder) derive(b *hcl.Block) *Derive {
	content, diags := b.Body.Content(deriveSchema)
	d.diags = append(d.diags, diags...)
	v := &Derive{Name: b.Labels[0], Range: b.DefRange, Description: d.str(content.Attributes["description"])}
	if why := checkName(v.Name); why != "" {
		d.errorf(b.LabelRanges[0], "Invalid name", "%s", why)
	}
	if a := content.Attributes["value"]; a != nil {
		v.expr = &Expr{src: a.Expr}
	}
	return v
}

func (d *decoder) filter(b *hcl.Block, set string) *Filter {
	content, diags := b.Body.Content(filterSchema)
	d.diags = append(d.diags, diags...)
	broken := len(d.diags)
	f := &Filter{Name: b.Labels[0], Set: set, Range: b.DefRange, Reason: d.str(content.Attributes["reason"])}
	if a := content.Attributes["reason"]; a != nil && len(d.diags) == broken && strings.TrimSpace(f.Reason) == "" {
		d.errorf(a.Expr.Range(), "Empty reason", "Say why these combinations are left out: plans, why and reports show it.")
	}
	if a := content.Attributes["keep"]; a != nil {
		f.keep = &Expr{src: a.Expr}
	}
	if f.Name == "" {
		d.errorf(b.LabelRanges[0], "Invalid name", "A filter needs a name: waterfalls and explanations show it.")
	}
	return f
}

// constants decodes the table constants, in source order where the expression
// is an object in the plan's text.
func (d *decoder) constants(spec *Spec, a *hcl.Attribute) {
	if a == nil {
		return
	}
	v, ok := d.value(a.Expr)
	if !ok || v.IsNull() {
		return
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		d.errorf(a.Expr.Range(), "Wrong type", "constants must be an object, { column = value, ... }.")
		return
	}
	vals := v.AsValueMap()
	for _, name := range objectOrder(a.Expr, vals) {
		rng := itemRange(a.Expr, name)
		if why := checkName(name); why != "" {
			d.errorf(rng, "Invalid name", "%s", why)
		}
		if t := vals[name].Type(); !t.IsPrimitiveType() && !vals[name].IsNull() {
			d.errorf(rng, "Wrong type", "The constant %q must be a number, string or bool, not %s.", name, t.FriendlyName())
			continue
		}
		spec.Constants = append(spec.Constants, Constant{Name: name, Value: vals[name]})
	}
}

// distinct decodes the distinct block, of which there may be one.
func (d *decoder) distinct(spec *Spec, blocks hcl.Blocks) {
	for _, b := range blocks {
		if b.Type != "distinct" {
			continue
		}
		if spec.Distinct != nil {
			d.errorf(b.DefRange, "Duplicate distinct", "One distinct block stands at %s already.", place(spec.Distinct.Range))
			continue
		}
		content, diags := b.Body.Content(distinctSchema)
		d.diags = append(d.diags, diags...)
		spec.Distinct = &Distinct{By: spec.Columns, Range: b.DefRange}
		if a := content.Attributes["by"]; a != nil {
			var ranges []hcl.Range
			spec.Distinct.By, ranges = d.names(a)
			d.boundEverywhere(spec, spec.Distinct.By, ranges, "by")
			if len(spec.Distinct.By) == 0 && !d.diags.HasErrors() {
				d.errorf(a.Expr.Range(), "Empty key", "Without a name in by, only one case would stay. Leave by out to mean all columns.")
			}
		}
		prefer, of := content.Attributes["prefer"], content.Attributes["of"]
		switch p := d.str(prefer); p {
		case "", "first":
			if of != nil {
				d.errorf(of.NameRange, "Unused attribute", "of belongs to prefer = \"min\".")
			}
		case "min":
			if of == nil {
				d.errorf(prefer.Range, "Missing of", "prefer = \"min\" needs of: the value whose smallest is kept.")
				continue
			}
			spec.Distinct.Of = &Derive{Name: "of", Range: of.Expr.Range(), expr: &Expr{src: of.Expr}}
		default:
			d.errorf(prefer.Expr.Range(), "Unknown preference", "prefer is \"first\" or \"min\", not %q.%s", p, didYouMean(p, []string{"first", "min"}))
		}
	}
}
