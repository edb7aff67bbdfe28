package grid

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// derive computes those of vars that are still lazy.
func (w *walker) derive(vars []*variable) {
	for _, v := range vars {
		if v.cur == idLazy {
			w.compute(v)
		}
	}
}

func (w *walker) compute(v *variable) {
	dp := w.set.derives[v]
	w.derive(dp.prog.vars)
	if q := dp.prog.quick(); q.kind == fastInt || q.kind == fastBool {
		v.cur = w.p.sp.internFast(v, q)
		return
	}

	v.cur = dp.known.of(func() int32 {
		w.evals++
		val, diags := dp.prog.eval()
		if diags.HasErrors() || !usable(val) {
			return idError
		}
		return w.p.sp.intern(v, normalise(val, v.info.typ))
	})
}

// judge returns the answer of a condition for the current values.
func (w *walker) judge(p *prog) answer {
	return w.quickly(p, func() answer {
		return p.known.of(func() answer { return w.evaluate(p) })
	})
}

// quickly returns the answer of the fast path if it is sure, otherwise that of slow.
func (w *walker) quickly(p *prog, slow func() answer) answer {
	v := p.quick()
	if v.kind == fastUnsure {
		return slow()
	}

	switch {
	case v.kind == fastUnknown:
		return isOpen
	case v.kind != fastBool:
		return isError
	case v.i == 1:
		return isTrue
	}

	return isFalse
}

func (w *walker) evaluate(p *prog) answer {
	w.evals++
	return judge(p.eval())
}

// usable reports whether a derived value can be stored, that is, whether it is known and finite.
func usable(v cty.Value) bool {
	return v.IsWhollyKnown() && (v.IsNull() || v.Type() != cty.Number || finite(v))
}

// normalise gives nulls the type of their name, so that all nulls of a name are equal.
func normalise(v cty.Value, t cty.Type) cty.Value {
	if v.IsNull() {
		return cty.NullVal(t)
	}
	return v
}

// eval evaluates p with the current values of its variables. If the result is unknown and diags has
// no errors, it depends on a name that is unbound or in error.
func (p *prog) eval() (cty.Value, hcl.Diagnostics) {
	for _, v := range p.vars {
		v.load()
		if p.named {
			p.ctx.Variables[v.info.name] = v.slot
		}
	}
	return p.node.Value(p.ctx)
}

// judge converts the result of a condition to an answer.
func judge(v cty.Value, diags hcl.Diagnostics) answer {
	switch {
	case diags.HasErrors():
		return isError
	case !v.IsKnown():
		return isOpen
	case v.IsNull() || v.Type() != cty.Bool:
		return isError
	case v.True():
		return isTrue
	}
	return isFalse
}
