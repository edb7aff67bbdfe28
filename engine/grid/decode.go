package grid

import (
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// productBlocks are the block types allowed in a grid, a case_set, a compound sweep and a part.
var productBlocks = []string{
	// axis (labelled blocks) has one name and its values.
	"axis",
	// rows (labelled blocks) has several names whose values vary together.
	"rows",
	// derive (labelled blocks) computes a further name from others, in any order.
	"derive",
	// filter (labelled blocks) drops combinations.
	"filter",
}

var (
	gridSchema = schema(nil,
		[]string{
			// op is the name of the work in runtimes. It is part of the id of every case. The default is the label of the
			// block.
			"op",
			// perf_table is the perf table of the rows, such as "gemm_perf". Export, gates and dedupe use its columns and
			// key. The default is the declared table that lists the op, else that of the runtime's kind.
			"perf_table",
			// columns (list of strings) lists the names that identify a case, in this order. The default is all names with
			// single values.
			"columns",
			// description is text for readers.
			"description",
			// constants (object) has columns that are the same in every row. Workers do not get them, and they are not part
			// of the id of a case, but rows with other constants are other rows.
			"constants",
			// loop_order (list of strings) lists the axes and rows that become the outermost loops; the same in a case_set
			// and a sweep.
			"loop_order",
			// include (reference or list of references) lists parts whose blocks belong to the grid; the same in a case_set,
			// a sweep and a part.
			"include",
		},
		append([]string{
			// case_set (labelled blocks) is a product of its own. The cases are those of all sets; blocks outside of the
			// sets belong to each of them. Every set must bind all columns.
			"case_set",
			// sweep (labelled blocks) has points that a worker visits inside one case, see below.
			"sweep",
			// distinct (block) drops cases that repeat a key.
			"distinct",
		}, productBlocks...)...)
	partSchema = schema(nil,
		[]string{
			// description is text for readers.
			"description",
			// include (reference or list of references) lists further parts.
			"include",
		},
		append([]string{
			// case_set (labelled blocks) is as in a grid. A part with one can be included in a grid or a sweep, not in a
			// case_set.
			"case_set",
			// sweep (labelled blocks) is as in a grid. A part with one can be included in a grid only.
			"sweep",
		}, productBlocks...)...)
	caseSetSchema = schema(nil, []string{"description", "loop_order", "include"}, productBlocks...)
	sweepSchema   = schema(nil,
		[]string{
			// values (list) lists the points. Without it, the sweep has axis, rows and the other blocks of a grid.
			"values",
			// columns (list of strings) lists the names that identify a point, if the sweep has blocks.
			"columns",
			"description", "loop_order", "include",
		},
		append([]string{
			"case_set", "distinct"}, productBlocks...)...)
	axisSchema = schema(
		[]string{
			// values (list, required) lists numbers, strings or bools of one type, or null. Rows have columns such as
			// latency, worker and device, so these cannot be names of an axis.
			"values",
		}, []string{"description"})
	deriveSchema = schema(
		[]string{
			// value (expression, required) uses the names of the grid.
			"value",
		}, []string{"description"})
	filterSchema = schema(
		[]string{
			// keep (expression, required) is true for combinations that are cases.
			"keep",
			// reason (string, required) is printed by `plan -v` and `why`.
			"reason",
		}, nil)
	distinctSchema = schema(nil,
		[]string{
			// by (list of strings) lists the columns of the key. The default is all columns.
			"by",
			// prefer is "first", or "min" for the case with the smallest value of of. The default is "first".
			"prefer",
			// of (expression) is compared if prefer is "min".
			"of",
		})
)

// schema returns the schema of a body. All blocks except distinct have a name.
func schema(required, optional []string, blocks ...string) *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, name := range slices.Concat(required, optional) {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: name, Required: slices.Contains(required, name)})
	}

	for _, name := range blocks {
		header := hcl.BlockHeaderSchema{Type: name}
		if name != "distinct" {
			header.LabelNames = []string{"name"}
		}
		out.Blocks = append(out.Blocks, header)
	}

	return out
}

// Decode reads the body of a grid block and runs all checks that do not need an expansion. partOf
// resolves the parts that the grid includes; it may be nil if there are no parts. The spec is nil
// if and only if the diagnostics contain errors. Every diagnostic has a Subject.
func Decode(body hcl.Body, eval Evaluator, partOf PartOf) (*Spec, hcl.Diagnostics) {
	d := &decoder{eval: eval, partOf: partOf}
	spec := d.grid(body)
	if !d.diags.HasErrors() {
		d.resolve(spec, nil)
	}

	if !d.diags.HasErrors() && spec.Sweep != nil {
		d.resolve(spec.Sweep, spec)
	}

	diags := noteInclusions(located(d.diags, body.MissingItemRange()), d.inclusions)
	if diags.HasErrors() {
		return nil, diags
	}

	return spec, diags
}

type decoder struct {
	eval       Evaluator // of the module that contains the current block
	partOf     PartOf
	diags      hcl.Diagnostics
	in         *inclusion // the part that contains the current block
	inclusions []*inclusion
	blocks     int // number of blocks decoded so far
}

// product contains what a grid, a case_set and a sweep have in common: the axes, rows, derives and
// filters of one body and of the parts that it includes.
type product struct {
	name       string // of a case_set, otherwise ""
	rng        hcl.Range
	rows, axes []*Dim
	derives    []*Derive
	filters    []*Filter
	sets       []*product
	sweeps     []sweepBlock
	included   []string // names of the included parts
	loopOrder  []string
	loopRanges []hcl.Range
}

// next returns the sequence number of a block. Blocks are numbered in source order; the blocks of a
// part are numbered at the position of the include.
func (d *decoder) next() int {
	d.blocks++
	return d.blocks
}

func (d *decoder) errorf(rng hcl.Range, summary, format string, args ...any) {
	d.diags = append(d.diags, errorAt(rng, summary, format, args...))
}

// content reads the attributes and blocks of a body.
func (d *decoder) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(schema)
	d.diags = append(d.diags, diags...)
	d.str(content.Attributes["description"]) // nothing shows it, but it must be text
	return content
}

func (d *decoder) grid(body hcl.Body) *Spec {
	content := d.content(body, gridSchema)
	spec := &Spec{Range: body.MissingItemRange()}
	spec.Op = d.str(content.Attributes["op"])
	spec.Perf = d.str(content.Attributes["perf_table"])

	if a := content.Attributes["op"]; a != nil {
		spec.Range = a.NameRange
		// otherwise the op could not be separated from the parameters in the hash of a case ID
		if strings.ContainsFunc(spec.Op, unicode.IsControl) {
			d.errorf(a.Expr.Range(), "Unsuitable op",
				"The name of an op is one line without control characters, not %q.", spec.Op)
		}
	}

	d.constants(spec, content.Attributes["constants"])

	common := d.product(content, "")
	d.assemble(spec, common)
	d.columns(spec, content, common)
	d.distinct(spec, content.Blocks)
	columns := spec.Columns
	if len(common.sweeps) > 0 {
		spec.Sweep = d.sweep(common.sweeps)
		spec.Sweep.inclusions = d.inclusions
		columns = slices.Concat(columns, spec.Sweep.Columns)
	}

	for _, c := range spec.Constants {
		if slices.Contains(columns, c.Name) {
			d.errorf(content.Attributes["constants"].Range, "Constant is a column",
				"%q is a column of the cases and cannot be a constant as well.", c.Name)
		}
	}

	spec.inclusions = d.inclusions
	return spec
}

func (d *decoder) caseSet(b *hcl.Block, before []*product) *product {
	content := d.content(b.Body, caseSetSchema)
	if b.Labels[0] == "" {
		d.errorf(b.LabelRanges[0], "Invalid name", "A case_set needs a name: messages and explanations show it.")
	}

	for _, p := range before {
		if p.name == b.Labels[0] {
			d.errorf(b.LabelRanges[0], "Duplicate case_set", "A case_set %q stands at %s already.", p.name,
				place(p.rng))
		}
	}

	p := d.product(content, b.Labels[0])
	p.rng = b.DefRange
	d.noSweeps(p)
	return p
}

// product decodes one body. set is the name of the case_set, or "" for other bodies.
func (d *decoder) product(content *hcl.BodyContent, set string) *product {
	p := &product{name: set, rng: content.MissingItemRange}
	if a := content.Attributes["loop_order"]; a != nil {
		p.loopOrder, p.loopRanges = d.names(a)
	}

	d.fill(p, content)
	return p
}

// fill adds the blocks of a body to p in source order. The blocks of included parts are added at
// the position of the include.
func (d *decoder) fill(p *product, content *hcl.BodyContent) {
	include := content.Attributes["include"]
	for _, b := range content.Blocks {
		if include != nil && include.Range.Start.Byte < b.DefRange.Start.Byte {
			d.include(p, include)
			include = nil
		}
		d.block(p, b)
	}

	if include != nil {
		d.include(p, include)
	}
}

func (d *decoder) block(p *product, b *hcl.Block) {
	switch b.Type {
	case "axis":
		content := d.content(b.Body, axisSchema)
		if dim := d.axis(b, content); dim != nil {
			dim.Set, dim.order = p.name, d.next()
			p.axes = append(p.axes, dim)
		}

	case "rows":
		if dim := d.rows(b); dim != nil {
			dim.Set, dim.order = p.name, d.next()
			p.rows = append(p.rows, dim)
		}

	case "derive":
		p.derives = append(p.derives, d.derive(b))

	case "filter":
		p.filters = append(p.filters, d.filter(b, p.name))

	case "case_set":
		if p.name != "" {
			d.errorf(b.DefRange, "Case set in a case set",
				"A case_set includes this part, and case sets do not nest. Include the part in the grid itself.")
			return
		}
		p.sets = append(p.sets, d.caseSet(b, p.sets))

	case "sweep":
		p.sweeps = append(p.sweeps, sweepBlock{b, d.eval, d.in})
	}
}

// lazy returns an expression that is evaluated once per combination.
func (d *decoder) lazy(src hcl.Expression) *Expr {
	return &Expr{src: src.(hclsyntax.Expression), eval: d.eval}
}

func (d *decoder) derive(b *hcl.Block) *Derive {
	content := d.content(b.Body, deriveSchema)
	v := &Derive{Name: b.Labels[0], Range: b.DefRange, order: d.next()}
	d.checkName(v.Name, b.LabelRanges[0], "name")
	if a := content.Attributes["value"]; a != nil {
		v.expr = d.lazy(a.Expr)
	}

	return v
}

func (d *decoder) filter(b *hcl.Block, set string) *Filter {
	content := d.content(b.Body, filterSchema)
	f := &Filter{Name: b.Labels[0], Set: set, Range: b.DefRange, order: d.next(), in: d.in,
		Reason: d.str(content.Attributes["reason"])}
	if a := content.Attributes["keep"]; a != nil {
		f.keep = d.lazy(a.Expr)
	}

	return f
}

// constants decodes the table constants. They are in source order if the expression is an object
// literal, otherwise sorted by name.
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
		d.checkName(name, rng, "name")
		switch v := vals[name]; {
		case v.IsNull():
		case v.Type() == cty.Number && !finite(v):
			d.errorf(rng, "Number out of range", "The constant %q is not a finite number.", name)
			continue
		case v.Type() == cty.Number && tooLong(v.AsBigFloat()) != "":
			d.errorf(rng, "Number out of range",
				"The constant %q is %s, which neither a 64-bit integer nor a float keeps; write it as text.",
				name, canonical(v))
			continue
		case !v.Type().IsPrimitiveType():
			d.errorf(rng, "Wrong type", "The constant %q must be a number, string or bool, not %s.", name,
				v.Type().FriendlyName())
			continue
		}

		spec.Constants = append(spec.Constants, Constant{Name: name, Value: vals[name]})
	}
}

// distinct decodes the distinct block. At most one is allowed.
func (d *decoder) distinct(spec *Spec, blocks hcl.Blocks) {
	for _, b := range blocks {
		if b.Type != "distinct" {
			continue
		}
		if spec.Distinct != nil {
			d.errorf(b.DefRange, "Duplicate distinct", "One distinct block stands at %s already.",
				place(spec.Distinct.Range))
			continue
		}

		content := d.content(b.Body, distinctSchema)
		spec.Distinct = &Distinct{By: spec.Columns, Range: b.DefRange}
		if a := content.Attributes["by"]; a != nil {
			var ranges []hcl.Range
			spec.Distinct.By, ranges = d.names(a)
			d.boundEverywhere(spec, spec.Distinct.By, ranges, "by")
			if len(spec.Distinct.By) == 0 && !d.diags.HasErrors() {
				d.errorf(a.Expr.Range(), "Empty key",
					"Without a name in by, only one case would stay. Leave by out to mean all columns.")
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
			spec.Distinct.Of = &Derive{Name: "distinct.of", Range: of.Expr.Range(), expr: d.lazy(of.Expr)}

		default:
			d.errorf(prefer.Expr.Range(), "Unknown preference", "prefer is \"first\" or \"min\", not %q.%s", p,
				textutil.DidYouMean(p, []string{"first", "min"}))
		}
	}
}

// Schemas returns the schema of a grid (key "") and of each of its blocks, for documentation and
// completion.
func Schemas() map[string]*hcl.BodySchema {
	return map[string]*hcl.BodySchema{
		"": gridSchema, "case_set": caseSetSchema, "sweep": sweepSchema, "axis": axisSchema, "rows": axisSchema,
		"derive": deriveSchema, "filter": filterSchema, "distinct": distinctSchema, "part": partSchema,
	}
}
