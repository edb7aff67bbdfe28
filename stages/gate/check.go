package gate

import (
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/systems"
)

// check is one kind of check, decoded from its block by gohcl.
type check interface{ run(*subject) finding }

// limited is implemented by checks with limits. prepare validates them.
type limited interface{ prepare(problems) }

// problems reports an error in a block of a gate.
type problems func(summary, format string, args ...any)

// share reports a share outside 0 to 1.
func (bad problems) share(name string, v float64) {
	if !(v >= 0 && v <= 1) {
		bad("Wrong share", "%s is %s; a share is between 0 and 1.", name, number(v))
	}
}

// negative reports a negative limit.
func (bad problems) negative(name string, v float64) {
	if !(v >= 0) {
		bad("Negative limit", "%s is %s; it must be 0 or more.", name, number(v))
	}
}

// system reads an attribute that may refer to a system.
func (bad problems) system(v cty.Value) *systems.Spec {
	if !stage.IsSet(v) {
		return nil
	}

	spec, err := stage.SystemOf(v)
	if err != nil {
		bad("Wrong system", "%v", err)
	}
	return spec
}

// referrer is implemented by checks that read other datasets. subject.others has them in the same order.
type referrer interface{ refersTo() []*stage.Ref }

// References are the other datasets that a check reads.
type References struct{ refs []*stage.Ref }

func (r *References) refersTo() []*stage.Ref { return r.refs }

// add reads an attribute that refers to one other dataset.
func (r *References) add(v cty.Value, bad problems) {
	ref, err := stage.RefOf(v)
	if err != nil {
		bad("Wrong reference", "%v", err)
		return
	}
	r.refs = append(r.refs, ref)
}

// addAll reads an attribute that refers to one or more other datasets.
func (r *References) addAll(name string, v cty.Value, bad problems) {
	var err error
	if r.refs, err = stage.RefsOf(v); err != nil {
		bad("Wrong "+name, "%v", err)
	} else if len(r.refs) == 0 {
		bad("No "+name, "%s is empty; it names stages, such as [collect.gemm].", name)
	}
}

// titled is implemented by checks that may occur several times in a gate. The title names what each of
// them checks.
type titled interface{ title() string }

// spec describes one check for decoding and documentation.
type spec struct {
	name  string
	check check // with its default attributes
}

// specs returns new values of all checks.
func specs() []spec {
	return []spec{
		{"coverage", &coverage{Min: 1}},
		{"duplicates", &duplicates{}},
		{"schema", &schema{}},
		{"provenance", &provenance{}},
		{"limits", &limits{Tolerance: 0.05}},
		{"trend", &trend{}},
		{"copies", &copies{}},
		{"rows", &rowsCheck{}},
		{"compare", &compare{}},
		{"composition", &composition{Column: "latency", Min: 0.97, Max: 1.03}},
		{"served", &served{MaxTime: 0.25}},
		{"prediction", &prediction{Columns: []string{"ttft", "tpot"}, P50: 0.05, P95: 0.15}},
	}
}
