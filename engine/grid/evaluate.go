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
	if dp.memo == nil {
		dp.memo = newMemo[int32](w.p.sp, dp.prog.vars)
	}

	key := dp.memo.key(w.p.sp)
	id := dp.memo.get(key)
	if id == 0 {
		id = w.result(dp)
		key = dp.memo.key(w.p.sp) // interning may have resized the memo's keys
		dp.memo.put(key, id)
	}

	if id < 0 {
		v.cur = idError
	} else {
		v.cur = id - 1
	}
}

// judge evaluates a condition for the current values.
func (w *walker) judge(p *prog) answer {
	if v := p.quick(); v.kind != fastUnsure {
		w.quick++
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
	w.evals++
	return judge(p.eval())
}

// result evaluates a derived value. It returns the value's id + 1, or -1 on error.
func (w *walker) result(dp *deriveProg) int32 {
	p := dp.prog
	if v := p.quick(); v.kind == fastInt || v.kind == fastBool {
		w.quick++
		return w.p.sp.intern(dp.target, v.cty()) + 1
	}

	w.evals++
	val, diags := p.eval()
	if diags.HasErrors() || !usable(val) {
		return -1
	}

	return w.p.sp.intern(dp.target, normalise(val, dp.target.info.typ)) + 1
}

// usable reports whether a derived value can be stored, that is, whether it is known and finite.
func usable(v cty.Value) bool {
	if v.IsMarked() || !v.IsWhollyKnown() {
		return false
	}
	return v.IsNull() || v.Type() != cty.Number || finite(v)
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
	case v.IsMarked():
		v, _ = v.Unmark()
		return judge(v, nil)

	case !v.IsKnown():
		return isOpen
	case v.IsNull() || v.Type() != cty.Bool:
		return isError
	case v.True():
		return isTrue
	}
	return isFalse
}
