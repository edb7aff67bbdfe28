package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// rules returns the table for the rules, or the finding of a table that they cannot judge.
func (s *subject) rules(spec *systems.Spec) (*rules.Table, finding) {
	if s.rec == nil {
		return nil, finding{}
	}

	if s.shared.table == nil {
		perf, _ := dedupe.PerfTable(s.ds)
		t, err := rules.New(s.rec, perf, s.key())
		if err != nil {
			return nil, s.cannot(err.Error())
		}
		t.Framework, s.shared.table = s.backend(), t
	}

	s.shared.table.System = spec
	return s.shared.table, finding{}
}

// backend returns the name of the framework in databases, "" if it is unknown.
func (s *subject) backend() string {
	if b, ok := catalog.BackendOf(s.ds.Info.Framework); ok {
		return b.Name
	}
	return ""
}

// found converts the result of a rule. It fails if there is a problem or an offence.
func (s *subject) found(r rules.Result, columns ...string) finding {
	out := finding{total: s.rows()}
	for _, u := range r.Unjudged {
		out.left.row(u.Row, u.Note)
	}

	out.ok = len(r.Problems) == 0 && len(r.Offences) == 0
	out.definite = len(r.Problems) > 0
	out.value = textutil.Counted(len(r.Offences), "row")
	out.rows = append(slices.Clone(r.Problems), s.worst(r.Offences, columns...)...)
	out.message = strings.Join(r.Problems[:min(len(r.Problems), 3)], "; ")
	return out
}

// add appends a statement to the message.
func (f *finding) add(format string, args ...any) {
	if f.message != "" {
		f.message += "; "
	}
	f.message += fmt.Sprintf(format, args...)
}

// schema checks the columns, types and dtype words that readers of the perf table need, that no word of a key has
// spaces around it, that every row names its kernel, and that sizes in the key are at least 1 (0 for sizes such as
// step).
type schema struct{}

func (c *schema) run(s *subject) finding {
	t, ok := dedupe.PerfTable(s.ds)
	if !ok {
		return s.cannot("the data belongs to no perf table")
	}

	if s.rec == nil {
		return finding{}
	}

	rows := rules.Schema(s.rec, t, rules.SchemaOptions{Words: true, OldWords: true, Kernel: true})
	out := finding{ok: len(rows) == 0, value: textutil.Counted(len(rows), "problem"), limit: t.Name, rows: rows,
		total: s.rows()}
	out.definite = !out.ok // a missing column is a failure even without rows
	if out.message = fmt.Sprintf("the columns, types and words fit %s", t.Name); s.rows() == 0 && out.ok {
		out.message = ""
	}

	if !out.ok {
		out.message = fmt.Sprintf("%d problems keep readers from %s: %s", len(rows), t.Name,
			strings.Join(rows[:min(3, len(rows))], "; "))
	}

	return out
}

// provenance checks that every row names the framework, version and device of its dataset, if the table has these
// columns, and a kernel of its framework.
type provenance struct {
	// System is the system to which the device must belong. If it is not set, any device passes.
	System cty.Value `hcl:"system,optional" json:"-"`

	spec *systems.Spec
}

func (c *provenance) prepare(bad problems) { c.spec = bad.system(c.System) }

func (c *provenance) run(s *subject) finding {
	t, out := s.rules(c.spec)
	if s.rows() == 0 || t == nil {
		return out
	}

	in := s.ds.Info
	want := rules.Origin{Framework: in.Framework, Version: in.Version, Device: in.Device}
	if in.Perf != "" {
		want.Backend = s.backend()
	}

	out = finding{total: s.rows(), limit: strings.TrimSpace(in.Framework + " " + in.Version + " " + in.Device)}
	for _, m := range t.Provenance(want) {
		out.rows = append(out.rows, m.Message)
	}

	out.ok, out.value = len(out.rows) == 0, textutil.Counted(len(out.rows), "problem")
	if out.message = "every row comes from " + out.limit; !out.ok {
		out.message = strings.Join(out.rows[:min(3, len(out.rows))], "; ")
		out.fix = "collect or import rows of another origin under their own framework, version and system"
		if strings.HasPrefix(out.rows[0], rules.NoColumn) {
			out.fix = "set framework, framework_version and device in the import: its files lack the columns"
		}
	}

	return out
}

// limits checks that times and power are physically possible, see below.
type limits struct {
	// System is the system that measured. If it is not set, limits that depend on its peaks are not checked.
	System cty.Value `hcl:"system,optional" json:"-"`
	// Tolerance is the share by which a row may be faster than the peaks of the system allow.
	Tolerance float64 `hcl:"tolerance,optional" json:"tolerance"`

	spec *systems.Spec
}

func (c *limits) prepare(bad problems) {
	c.spec = bad.system(c.System)
	bad.negative("tolerance", c.Tolerance)
}

func (c *limits) run(s *subject) finding {
	t, out := s.rules(c.spec)
	if t == nil {
		return out
	}

	res := t.Limits(c.Tolerance)
	times := len(res.Offences)

	watts, _ := t.Power()
	res.Offences = append(res.Offences, watts.Offences...)
	res.Problems = append(res.Problems, watts.Problems...)

	out = s.found(res, "kernel_source", t.Metric)
	out.limit = "possible times and power"
	if c.spec != nil {
		out.limit += " on " + c.spec.Name
	}

	if times > 0 {
		out.add("%d of %d rows have an impossible %s, for example %s", times, s.rows(), t.Metric,
			s.worst(res.Offences[:times], t.Metric)[0])
	}

	if n := len(watts.Offences); n > 0 {
		out.add("%d rows have an impossible power, for example %s", n, s.worst(watts.Offences, "power")[0])
	}

	if out.ok {
		out.message = fmt.Sprintf("%d rows have possible values of %s", s.rows(), t.Metric)
		return out
	}

	out.fix = "check whether the kernel ran at all, the unit of the values, and on which GPU they were measured"
	return out
}

// copies checks that no group of rows, such as those of a dtype or a number of GPUs, repeats another group, or a
// multiple of it, to the last digit.
type copies struct{}

func (c *copies) run(s *subject) finding {
	t, out := s.rules(nil)
	if t == nil {
		return out
	}

	out = s.found(t.Copies(), t.Metric)
	if out.limit = "measurements of their own"; out.ok {
		out.message = fmt.Sprintf("no group of the %d rows repeats another one to the last digit", s.rows())
		return out
	}

	out.fix = "measure the copied rows; readers interpolate between the groups that exist"
	return out
}

// trend checks that rows fit to their neighbours along the axes of the table: at most 0.75 % of the rows are 1.7 times
// apart from them (2.5 % if most have neighbours along one axis only), none is 50 times apart (8 times in a table of
// 50 rows to a few hundred), and at most 2.5 % of the steps to a larger case fall below 0.7 of the row before. Rows
// without a neighbour on both sides are not counted.
type trend struct{}

func (c *trend) run(s *subject) finding {
	t, out := s.rules(nil)
	if t == nil {
		return out
	}

	apart := t.Outliers()
	falls, steps := t.Falls()
	out = s.found(rules.Result{Offences: slices.Concat(apart.Offences, falls.Offences)}, "kernel_source", t.Metric)
	out.limit = fmt.Sprintf("%s of outliers, %s if rows are judged along one axis, %s of falls",
		percent(rules.OutlierShare), percent(rules.LineShare), percent(rules.FallShare))

	// Rows without neighbours are not part of what the check judges; rows without a usable value are.
	for _, u := range apart.Unjudged {
		if u.Note == rules.NoNeighbours {
			out.total--
		} else {
			out.left.row(u.Row, u.Note)
		}
	}

	if out.total == out.left.count() {
		out.add("no row has neighbours on both sides along an axis")
		return out
	}

	out.add("%d rows are more than %s times apart from their neighbours, %d of %d steps fall below %s of the row before",
		len(apart.Offences), number(rules.OutlierRatio), len(falls.Offences), steps, number(rules.FallRatio))
	if !out.ok {
		out.fix = "measure these rows and their neighbours again; if they stay, look at which kernel ran"
	}

	return out
}
