package gate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/stats"
	"aicplan/sink/base/textutil"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/gate/results"
)

// prediction limits the error |predicted / measured - 1| of each column over the workloads that both tables
// have.
type prediction struct {
	// Predicted is the stage that has the predictions.
	Predicted cty.Value `hcl:"predicted" json:"-"`
	// Columns lists the compared columns.
	Columns []string `hcl:"columns,optional" json:"columns"`
	// P50 is the largest accepted median error.
	P50 float64 `hcl:"p50,optional" json:"p50"`
	// P95 is the largest accepted 95th percentile of the error.
	P95 float64 `hcl:"p95,optional" json:"p95"`
	// Key lists the columns that identify a workload. The default is the columns that both tables have.
	Key []string `hcl:"key,optional" json:"key,omitempty"`
	// Traces is a collect with kernel traces of workloads. The report uses them to attribute errors to ops.
	Traces cty.Value `hcl:"traces,optional" json:"-"`

	References // the predictions, then the traces if there are any
}

func (c *prediction) title() string { return titleOf("prediction of", c.refs[:min(len(c.refs), 1)]) }

// address returns the stage that has the predictions.
func (c *prediction) address() string { return c.refs[0].Address }

func (c *prediction) prepare(bad problems) {
	c.add(c.Predicted, bad)
	if stage.IsSet(c.Traces) {
		c.add(c.Traces, bad)
	}

	bad.negative("p50", c.P50)
	bad.negative("p95", c.P95)
	if len(c.Columns) == 0 {
		bad("Prediction without columns", "columns is empty; it names what was predicted, such as [\"ttft\", \"tpot\"].")
	}
}

// compared is one column of a workload that both datasets have.
type compared struct {
	row                 int
	measured, predicted float64
}

func (p compared) relative() float64 { return p.predicted/p.measured - 1 }

func (c *prediction) run(s *subject) finding {
	if s.rec == nil || s.reference() == nil {
		return failed(fmt.Sprintf("there are no rows to compare with %s", c.address()))
	}

	key, err := c.key(s)
	if err != nil {
		return failed(err.Error())
	}

	m, err := c.match(s, key)
	if err != nil {
		return failed(err.Error())
	}

	if m.common == 0 {
		why := ""
		if s.rows() > 0 && table.Len(s.reference()) > 0 {
			why = fmt.Sprintf("; the data has %s, and what was predicted %s", table.Describe(s.rec, 0, key),
				table.Describe(s.reference(), 0, key))
		}
		return failed("no workload is both measured and predicted" + why)
	}

	out := finding{total: s.rows(), limit: fmt.Sprintf("p50 of the error at most %s, p95 at most %s",
		percent(c.P50), percent(c.P95))}
	pairs, err := c.pairs(s, m, &out)
	if err != nil {
		return s.cannot(err.Error())
	}

	errors := c.judge(s, &out, pairs, key)
	if out.message != "" && out.left.count() == out.total {
		out.message += "; " + out.left.text()
	}

	var notes []string
	if m.unasked > 0 {
		notes = append(notes, textutil.Some(m.unasked, "workload")+" predicted and not measured")
	}
	if warned, first := c.warnings(s, m); warned > 0 {
		notes = append(notes, fmt.Sprintf("%s with a warning: %s", textutil.Some(warned, "prediction"), first))
	}
	if text := queue(s, pairs["ttft"]); text != "" {
		notes = append(notes, text)
	}
	if out.message != "" {
		out.message = strings.Join(append([]string{out.message}, notes...), "; ")
	}

	out.detail = c.detail(s, m, key, errors, notes)
	return out
}

// queue describes the errors of ttft without the queue time that the server reports, or returns "" if it reports
// none. No limit applies to them, because a prediction may model its own queue.
func queue(s *subject, pairs []compared) string {
	waited := cells(s.rec, "server_queue", true)
	var shares, errs []float64
	for _, p := range pairs {
		w := waited(p.row)
		if !(w < p.measured) {
			continue // the two means cover different requests: some failed
		}
		shares = append(shares, w/p.measured)
		errs = append(errs, math.Abs(p.predicted/(p.measured-w)-1))
	}
	if len(errs) == 0 {
		return ""
	}

	slices.Sort(shares)
	slices.Sort(errs)
	at := func(v []float64, q float64) string { return percent(stats.Interpolated(v, q)) }
	return fmt.Sprintf("by the server's metrics %s of ttft is its queue (median of %d), and ttft without it: p50 %s, "+
		"p95 %s (not judged)", at(shares, 0.5), len(errs), at(errs, 0.5), at(errs, 0.95))
}

// warnings counts the workloads whose prediction has a warning of the package, such as a batch that does not
// fit, and returns the first one.
func (c *prediction) warnings(s *subject, m *matched) (n int, first string) {
	for _, at := range m.theirs {
		if at < 0 {
			continue
		}
		if text := textOf(s.reference(), "warning", at); text != "" {
			n, first = n+1, cmp.Or(first, text)
		}
	}
	return n, first
}

// key returns the columns that identify a workload in both datasets.
func (c *prediction) key(s *subject) ([]string, error) {
	key := c.Key
	if len(key) == 0 {
		for _, name := range s.ds.Info.Params {
			if column(s.reference(), name) != nil && slices.Contains(s.others[0].Info.Params, name) {
				key = append(key, name)
			}
		}
	}

	if len(key) == 0 {
		return nil, fmt.Errorf(
			"the cases of %s and of the data have no column in common; name those that identify a workload with key",
			c.address(),
		)
	}

	for i, rec := range []arrow.Record{s.rec, s.reference()} {
		for _, name := range key {
			if err := lackingKey(rec, []string{"the data", c.address()}[i], []string{name}); err != nil {
				return nil, fmt.Errorf("%w.%s", err, textutil.DidYouMean(name, table.Names(rec)))
			}
		}
	}

	return key, nil
}

// matched maps the rows of the subject to rows of the predictions.
type matched struct {
	theirs  []int // by row of the subject; -1 without a prediction
	common  int   // selected rows with a prediction
	unasked int   // predictions without a measured row
	// trees are the tables that the compared rows were predicted from, sorted. It is empty if the predictions have none
	// of treeColumns.
	trees []string
}

func (c *prediction) match(s *subject, key []string) (*matched, error) {
	if err := sameKind(s.rec, s.reference(), key, c.address()); err != nil {
		return nil, err
	}

	ix := table.NewKeyIndex(key, table.KeyOptions{})
	theirs, ours := ix.Number(s.reference()), ix.Number(s.rec)
	of := map[uint32]int{}
	for i, id := range theirs {
		if _, twice := of[id]; twice {
			return nil, fmt.Errorf("%s has two predictions for %s; name further columns with key", c.address(),
				table.Describe(s.reference(), i, key))
		}
		of[id] = i
	}

	m := &matched{theirs: make([]int, len(ours))}
	unasked := maps.Clone(of)
	for i, id := range ours {
		at, ok := of[id]
		if !ok {
			m.theirs[i] = -1
			continue
		}

		m.theirs[i] = at
		m.common++
		delete(unasked, id)
	}
	m.unasked = len(unasked)

	// The errors of predictions from different tables cannot be attributed to one set of tables.
	if m.trees = m.treesOf(s); len(m.trees) > 1 {
		return nil, fmt.Errorf("%s predicts from %d different tables: %s; predict all workloads from one", c.address(),
			len(m.trees), strings.Join(m.trees[:min(len(m.trees), 4)], "; "))
	}

	return m, nil
}

// sameKind rejects a key column that is text on one side and a number on the other. No row would match,
// and no message would explain it.
func sameKind(a, b arrow.Record, key []string, name string) error {
	for _, k := range key {
		x, y := column(a, k), column(b, k)
		if x == nil || y == nil || x.NullN() == x.Len() || y.NullN() == y.Len() {
			continue // a column with a default, or without a value
		}
		if tx, ty := x.DataType().ID() == arrow.STRING, y.DataType().ID() == arrow.STRING; tx != ty {
			kinds := map[bool]string{true: "text", false: "a number"}
			return fmt.Errorf(
				"the column %s identifies workloads and is %s in the data and %s in %s; give both one type",
				k,
				kinds[tx],
				kinds[ty],
				name,
			)
		}
	}

	return nil
}

// treeColumns identify the tables that a row was predicted from.
var treeColumns = []string{"tables_version", "tables_digest"}

func (m *matched) treesOf(s *subject) []string {
	seen := map[string]bool{}
	for _, at := range m.theirs {
		if at >= 0 {
			seen[table.Describe(s.reference(), at, treeColumns)] = true
		}
	}

	delete(seen, "")
	return slices.Sorted(maps.Keys(seen))
}

// pairs returns the comparable values by column. A row is counted as unjudged once, with the first
// reason.
func (c *prediction) pairs(s *subject, m *matched, out *finding) (map[string][]compared, error) {
	failures, err := numbers(s.rec, "error_rate") // nil if there are none
	if err != nil && column(s.rec, "error_rate") != nil {
		return nil, err
	}

	var measured, predicted []*table.Col[float64]
	for _, name := range c.Columns {
		a, err := numbers(s.rec, name)
		if err != nil {
			return nil, err
		}

		b, err := numbers(s.reference(), name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.address(), err)
		}

		measured, predicted = append(measured, a), append(predicted, b)
	}

	pairs := map[string][]compared{}
	for i, at := range m.theirs {
		if at < 0 {
			out.left.row(i, "it was not predicted")
			continue
		}
		if rate, ok := failures.At(i); ok && rate != 0 {
			out.left.row(i, "some of its requests failed")
			continue
		}

		why := ""
		for n, name := range c.Columns {
			reason := unfit(measured[n], i, false)
			if theirs := unfit(predicted[n], at, false); reason == "" && theirs != "" {
				reason = "predicted " + theirs
			}

			if reason == "" {
				pairs[name] = append(pairs[name], compared{i, measured[n].Values[i], predicted[n].Values[at]})
			}
			why = cmp.Or(why, reason)
		}

		if why != "" {
			out.left.row(i, why)
		}
	}

	return pairs, nil
}

// otherUnit is a ratio at which different units are more likely than a wrong prediction.
const otherUnit = 100

// judge fills in the finding from the errors. It returns them as a table.
func (c *prediction) judge(s *subject, out *finding, pairs map[string][]compared, key []string) results.Table {
	errors := results.Table{Texts: 1, Heads: []string{"of", "compared", "error p50 (%)", "asked (%)", "error p95 (%)",
		"asked (%)", "predicted / measured, median"}}
	var texts []string
	var list []rules.Offence

	out.ok = true
	for _, name := range c.Columns {
		all := pairs[name]
		if len(all) == 0 {
			out.ok = false
			texts = append(texts, name+": nothing to compare")
			continue
		}

		off, ratios := make([]float64, len(all)), make([]float64, len(all))
		for i, p := range all {
			ratios[i], off[i] = p.predicted/p.measured, math.Abs(p.relative())
			if off[i] > c.P50 {
				list = append(list, rules.Offence{Row: p.row, Excess: off[i],
					Note: fmt.Sprintf("%s (%s: measured %s, predicted %s, %+.1f %%)",
						table.Describe(s.rec, p.row, key), name, number(round(p.measured)), number(round(p.predicted)),
						100*p.relative())})
			}
		}

		slices.Sort(off)
		slices.Sort(ratios)
		p50, p95, median := stats.Interpolated(off, 0.5), stats.Interpolated(off, 0.95), stats.Interpolated(ratios, 0.5)
		errors.Rows = append(errors.Rows, []any{name, len(all), 100 * p50, 100 * c.P50, 100 * p95, 100 * c.P95, median})

		text := fmt.Sprintf("%s: p50 %s, p95 %s, median of predicted / measured %.3f, of %d", name, percent(p50),
			percent(p95), median, len(all))
		if median >= otherUnit || median <= 1.0/otherUnit {
			text += " (are both in the same unit?)"
		}

		texts = append(texts, text)
		out.ok = out.ok && p50 <= c.P50 && p95 <= c.P95
	}

	if len(pairs) == 0 {
		return errors // the reasons in out.left explain it
	}

	out.value = strings.Join(texts, "; ")
	out.message = "error against " + c.address() + ": " + out.value
	if !out.ok {
		for _, o := range rules.Worst(list, maxRows) {
			out.rows = append(out.rows, o.Note)
		}
	}

	return errors
}
