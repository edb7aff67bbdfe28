package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// sensitiveIn reports references to sensitive values in expressions whose values are stored and
// printed.
func (l *loader) sensitiveIn(exprs []hcl.Expression, ctx *hcl.EvalContext, bound map[string]bool) hcl.Diagnostics {
	if !l.marks {
		return nil
	}
	var diags hcl.Diagnostics
	for _, e := range exprs {
		for _, t := range l.parts(e).variables {
			if bound[t.RootName()] {
				continue
			}
			if v, more := t.TraverseAbs(ctx); !more.HasErrors() && v.ContainsMarked() {
				diags = append(diags, stage.SensitiveHere(t.SourceRange(), stage.TraversalText(t))...)
			}
		}
	}

	return diags
}

// shown returns an error if the value is sensitive. It is used for values that determine the
// structure of a plan, such as for_each.
func shown(v cty.Value, what string, expr hcl.Expression) hcl.Diagnostics {
	if !v.ContainsMarked() {
		return nil
	}
	return stage.SensitiveHere(expr.Range(), what)
}

// withoutSensitive returns the diagnostic without its expression values if one of them is
// sensitive or a long text.
func withoutSensitive(d *hcl.Diagnostic) *hcl.Diagnostic {
	if d.Expression == nil || d.EvalContext == nil {
		return d
	}

	for _, t := range d.Expression.Variables() {
		v, diags := t.TraverseAbs(d.EvalContext)
		long := stage.IsText(v) && !v.IsMarked() && len(v.AsString()) >= longText
		if diags.HasErrors() || !v.ContainsMarked() && !long {
			continue
		}

		plain := *d
		plain.Expression, plain.EvalContext = nil, nil
		return &plain
	}

	return d
}

// longText is from how many bytes on the value of a text is not printed.
const longText = 1000
