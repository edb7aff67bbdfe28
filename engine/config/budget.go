package config

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// The limits of reading a plan. Plans are small, but a few lines can describe more stages, values
// or text than the machine has memory for.
const (
	maxFile      = 4 << 20     // bytes of one file
	maxInstances = 20_000      // instances of stages and modules
	maxSteps     = 2_000_000   // parts of expressions that all for expressions evaluate
	maxElements  = 1_000_000   // elements inside one named value
	maxText      = 16 << 20    // bytes of text inside one named value
	maxTime      = time.Minute // to read a plan
)

// budget counts what reading a plan has taken. It is safe for concurrent use.
type budget struct {
	steps     atomic.Int64
	instances int
	exceeded  bool // a value was too large
	started   time.Time
}

// begin resets the budget for one call of the package.
func (b *budget) begin() {
	b.steps.Store(0)
	b.started = time.Now()
}

// take adds the steps of one for expression: the values that it loops over times the parts of the
// expression. It returns an error if they exceed the budget.
func (b *budget) take(steps int, at hcl.Range) hcl.Diagnostics {
	if b.steps.Add(int64(steps)) > maxSteps {
		return errorAt(
			at,
			"Plan too large",
			"The for expressions of the plan take more than %d million steps. Loop over fewer values, or declare them as axes "+
				"of a grid, which are combined without a list of all combinations.",
			maxSteps/1_000_000,
		)
	}
	return nil
}

// instance counts one instance of a stage or module.
func (b *budget) instance(d *blockDecl) hcl.Diagnostics {
	if b.instances++; b.instances > maxInstances {
		return errorAt(
			d.rng(),
			"Plan too large",
			"The plan has more than %d stages and modules. Use fewer keys in for_each, or declare the values as axes of one "+
				"grid.",
			maxInstances,
		)
	}
	return nil
}

// value returns an error if a named value is too large, or if reading the plan takes too long.
func (b *budget) value(label string, v cty.Value, at hcl.Range) hcl.Diagnostics {
	elements, text := maxElements, maxText
	if !within(v, &elements, &text) {
		d := errorAt(at, "Value too large",
			"%s has more than %d elements or %d MB of text. Split it, or declare the values as axes of a grid.",
			label, maxElements, maxText>>20)
		if b.exceeded {
			d[0].Extra = follower{} // it may contain the value that was reported first
		}
		b.exceeded = true
		return d
	}
	if time.Since(b.started) > maxTime {
		return errorAt(at, "Plan too large",
			"Reading the plan took more than %s; %s was evaluated last. Use shorter lists and fewer modules.",
			maxTime, label)
	}

	return nil
}

// within subtracts the size of a value. It returns false as soon as one of the numbers is used up.
// Values can share parts, so the size may be far larger than the memory that a value takes.
func within(v cty.Value, elements, text *int) bool {
	v, _ = v.Unmark()
	if *elements--; *elements < 0 {
		return false
	}
	if !v.IsKnown() || v.IsNull() {
		return true
	}

	switch t := v.Type(); {
	case t == cty.String:
		*text -= len(v.AsString())
		return *text >= 0

	case t.IsObjectType(): // an iterator would sort the names
		for name := range t.AttributeTypes() {
			if !within(v.GetAttr(name), elements, text) {
				return false
			}
		}
		return true

	case !v.CanIterateElements():
		return true

	case t.IsCollectionType() && t.ElementType().IsPrimitiveType() && t.ElementType() != cty.String:
		*elements -= v.LengthInt()
		return *elements >= 0
	}

	if v.LengthInt() > *elements {
		return false
	}

	for _, e := range v.Elements() {
		if !within(e, elements, text) {
			return false
		}
	}

	return true
}

// guard makes the loops below a node count their steps. It changes the syntax tree.
func (b *budget) guard(node hclsyntax.Node) {
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.ForExpr:
			n.CollExpr = b.counted(n.CollExpr, parts(n.KeyExpr, n.ValExpr, n.CondExpr))
		case *hclsyntax.TemplateJoinExpr:
			n.Tuple = b.counted(n.Tuple, 1)
		}

		return nil
	})
}

// parts returns the number of nodes below some expressions, which may be nil.
func parts(exprs ...hclsyntax.Expression) int {
	n := 0
	for _, e := range exprs {
		if e != nil {
			_ = hclsyntax.VisitAll(e, func(hclsyntax.Node) hcl.Diagnostics { n++; return nil })
		}
	}
	return n
}

// counted is the collection of a for expression, or the parts of a template loop. Walks of the
// syntax tree skip the embedded node and continue with its child, the expression as written.
type counted struct {
	*hclsyntax.ParenthesesExpr
	budget *budget
	parts  int // parts that are evaluated for each element
}

func (b *budget) counted(e hclsyntax.Expression, parts int) *counted {
	return &counted{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, b, parts}
}

// Unwrap returns the expression as written.
func (c *counted) Unwrap() hclsyntax.Expression { return c.Expression }

// Value implements hcl.Expression.
func (c *counted) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if diags := c.budget.take(0, c.Range()); diags.HasErrors() {
		return cty.DynamicVal, diags // an outer loop goes on after the error of an inner one
	}
	v, diags := c.Expression.Value(ctx)
	plain, _ := v.Unmark()
	if diags.HasErrors() || !plain.IsKnown() || plain.IsNull() || !plain.CanIterateElements() {
		return v, diags
	}

	if more := c.budget.take(plain.LengthInt()*c.parts, c.Range()); more.HasErrors() {
		return cty.DynamicVal, append(diags, more...)
	}
	if _, loop := c.Expression.(*hclsyntax.ForExpr); loop { // perhaps of a template, which joins it
		return v, append(diags, c.budget.value("The list", v, c.Range())...)
	}

	return v, diags
}

// errTooLong is returned by functions whose result would be a text of more than maxText bytes.
var errTooLong = fmt.Errorf("the result has more than %d MB of text", maxText>>20)

var replaceFunc = bounded(stdlib.ReplaceFunc, func(args []cty.Value) int {
	text, old, by := args[0].AsString(), args[1].AsString(), args[2].AsString()
	return len(text) + strings.Count(text, old)*(len(by)-len(old))
})

var joinFunc = bounded(stdlib.JoinFunc, func(args []cty.Value) int {
	n := 0
	for _, list := range args[1:] {
		for _, e := range list.Elements() {
			if e.IsKnown() && !e.IsNull() {
				n += len(e.AsString()) + len(args[0].AsString())
			}
		}
	}
	return n
})

// bounded returns a function that fails if the length of its result, in bytes, exceeds maxText.
func bounded(f function.Function, length func(args []cty.Value) int) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params:      f.Params(),
		VarParam:    f.VarParam(),
		Type:        f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if length(args) > maxText {
				return cty.NilVal, errTooLong
			}
			return f.Call(args)
		},
	})
}
