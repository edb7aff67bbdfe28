package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/phrase"
	"aicplan/sink/rowkey"
	"aicplan/sink/stats"
)

// prediction: what was predicted for workloads is near to what was measured.
type prediction struct {
	Predicted cty.Value `hcl:"predicted" json:"-"`
	Columns   []string  `hcl:"columns,optional" json:"columns"`
	// P50 and P95 limit percentiles of |predicted / measured - 1|, of each column.
	P50 float64  `hcl:"p50,optional" json:"p50"`
	P95 float64  `hcl:"p95,optional" json:"p95"`
	Key []string `hcl:"key,optional" json:"key,omitempty"`
	// Min is the least number of workloads that both have.
	Min int `hcl:"min,optional" json:"min"`

	ref *stage.Ref
}

func (c *prediction) refersTo() *stage.Ref { return c.ref }
func (c *prediction) title() string {
	if c.ref == nil {
		return "prediction"
	}
	return "prediction of " + c.ref.Address
}

func (c *prediction) prepare(r hcl.Range) hcl.Diagnostics {
	ref, diags := neededRef(c.Predicted, r)
	c.ref = ref
	diags = append(diags, notNegative("p50", c.P50, r)...)
	diags = append(diags, notNegative("p95", c.P95, r)...)
	if len(c.Columns) == 0 {
		diags = append(diags, problem("Prediction without columns", "columns is empty; it names what was predicted, such as [\"ttft\", \"tpot\"].", r))
	}
	return diags
}

// compared is a column of a workload in both datasets.
type compared struct {
	row                 int
	column              string
	measured, predicted float64
}

func (p compared) relative() float64 { return p.predicted/p.measured - 1 }

func (c *prediction) run(s *subject) finding {
	if s.rec == nil || s.reference == nil || s.reference.Table == nil {
		return failed(fmt.Sprintf("there are no rows to compare with %s", c.ref.Address))
	}
	key := c.Key
	if len(key) == 0 {
		for _, name := range s.ds.Info.Params {
			if column(s.reference.Table, name) != nil && slices.Contains(s.reference.Info.Params, name) {
				key = append(key, name)
			}
		}
	}
	if len(key) == 0 {
		return failed(fmt.Sprintf("the cases of %s and of the data have no column in common; name those that tell workloads apart with key", c.ref.Address))
	}
	for _, name := range key {
		if err := s.lackingKey(s.rec, "the data", []string{name}); err != nil {
			return failed(err.Error() + "." + phrase.DidYouMean(name, columnNames(s.rec)))
		}
		if err := s.lackingKey(s.reference.Table, c.ref.Address, []string{name}); err != nil {
			return failed(err.Error() + "." + phrase.DidYouMean(name, columnNames(s.reference.Table)))
		}
	}
	ix := rowkey.New(key, rowkey.Options{})
	theirs, err := ix.Number(s.reference.Table)
	if err != nil {
		return s.cannot(err.Error())
	}
	ours, err := ix.Number(s.rec)
	if err != nil {
		return s.cannot(err.Error())
	}
	of := map[uint32]int{}
	for i, id := range theirs {
		if _, twice := of[id]; twice {
			return failed(fmt.Sprintf("%s has two predictions for %s; name further columns with key", c.ref.Address, rowkey.Describe(s.reference.Table, i, key)))
		}
		of[id] = i
	}
	out := finding{total: s.selected, limit: fmt.Sprintf("p50 of the error at most %s, p95 at most %s", percent(c.P50), percent(c.P95))}
	pairs := map[string][]compared{}
	common := 0
	for i, id := range ours {
		if !s.has(i) {
			continue
		}
		if _, ok := of[id]; !ok {
			out.left.row(i, "it was not predicted")
			continue
		}
		common++
	}
	if common < max(c.Min, 1) {
		return failed(fmt.Sprintf("%d workloads are both measured and predicted, and at least %d are needed to judge", common, max(c.Min, 1)))
	}
	for _, name := range c.Columns {
		m, err := numbers(s.rec, name)
		if err != nil {
			return s.cannot(err.Error())
		}
		p, err := numbers(s.reference.Table, name)
		if err != nil {
			return failed(fmt.Sprintf("%s: %v", c.ref.Address, err))
		}
		for i, id := range ours {
			at, ok := of[id]
			if !s.has(i) || !ok {
				continue
			}
			why := m.unfit(name, i, false)
			if why == "" {
				if why = p.unfit(name, at, false); why != "" {
					why = "predicted " + why
				}
			}
			if why != "" {
				out.left.row(i, why)
				continue
			}
			pairs[name] = append(pairs[name], compared{i, name, m.val[i], p.val[at]})
		}
	}
	return c.finding(s, out, pairs)
}

func (c *prediction) finding(s *subject, out finding, pairs map[string][]compared) finding {
	var texts []string
	var list []offender
	out.ok = true
	for _, name := range c.Columns {
		all := pairs[name]
		if len(all) == 0 {
			out.ok = false
			texts = append(texts, name+": nothing to compare")
			continue
		}
		errs := make([]float64, len(all))
		signed := make([]float64, len(all))
		for i, p := range all {
			signed[i] = p.relative()
			errs[i] = math.Abs(signed[i])
			if errs[i] > c.P50 {
				list = append(list, offender{row: p.row, worse: errs[i], note: fmt.Sprintf("(%s: measured %s, predicted %s, %+.1f %%)", name, number(round(p.measured)), number(round(p.predicted)), 100*signed[i])})
			}
		}
		slices.Sort(errs)
		slices.Sort(signed)
		p50, p95 := stats.Interpolated(errs, 0.5), stats.Interpolated(errs, 0.95)
		texts = append(texts, fmt.Sprintf("%s: p50 %s, p95 %s, median of predicted / measured %.3f, of %d", name, percent(p50), percent(p95), 1+stats.Interpolated(signed, 0.5), len(all)))
		if p50 > c.P50 || p95 > c.P95 {
			out.ok = false
		}
	}
	out.value = strings.Join(texts, "; ")
	out.message = "error against " + c.ref.Address + ": " + out.value
	if !out.ok {
		out.rows = s.worst(list)
	}
	return out
}
