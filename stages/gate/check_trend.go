package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"

	"aicplan/sink/catalog"
	"aicplan/sink/physics"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
)

// trend checks that latencies do not fall or spike while the work grows.
type trend struct {
	Ratio float64 `hcl:"ratio,optional" json:"ratio"`
	Max   int     `hcl:"max,optional" json:"max"`

	spikes bool
}

func (c *trend) prepare(r hcl.Range) hcl.Diagnostics {
	diags := notNegative("max", float64(c.Max), r)
	switch {
	case c.spikes && !(c.Ratio > 1):
		diags = append(diags, problem("Wrong ratio",
			fmt.Sprintf("ratio is %s; a spike is a multiple of its neighbours, so it must be above 1.", number(c.Ratio)), r))
	case !c.spikes && !(c.Ratio > 0 && c.Ratio <= 1):
		diags = append(diags, problem("Wrong ratio",
			fmt.Sprintf("ratio is %s; a fall is a share of the smaller neighbour, so it must be above 0 and at most 1.",
				number(c.Ratio)), r))
	}

	return diags
}

func (c *trend) run(s *subject) finding {
	if s.rec == nil {
		return finding{}
	}

	metric := s.metric()
	if m := dedupe.SchemaOf(s.ds).Primary(); m.Better == catalog.Higher && !c.spikes {
		return s.cannot(fmt.Sprintf("%s is a rate, and only times grow with the work", metric))
	}

	values, err := numbers(s.rec, metric)
	if err != nil {
		return s.cannot(err.Error())
	}

	key := s.fullKey()
	if err := s.lackingKey(s.rec, "the data", key); err != nil {
		return s.cannot(err.Error())
	}

	rec, rows, err := s.selection()
	if err != nil {
		return s.cannot(err.Error())
	}

	axes := physics.AxesOf(rec, key)
	if len(axes) == 0 {
		return s.cannot("no column is known as an axis along which work grows")
	}

	out := finding{limit: fmt.Sprintf("at most %d", c.Max)}
	seen := make([]bool, rec.NumRows())
	bad, steps, err := c.compare(s, rec, rows, axes, key, metric, seen)
	if err != nil {
		return s.cannot(err.Error())
	}

	judged, aside, err := c.extent(s, rec, rows, axes, key, values, seen, &out.left)
	if err != nil {
		return s.cannot(err.Error())
	}

	out.total = judged + out.left.count()
	if judged == 0 {
		if out.message = "no two rows differ along one axis alone and are above the floor"; out.left.count() > 0 {
			out.message += "; " + out.left.text()
		}
		return out
	}

	what := "fall below %s of the value before"
	if c.spikes {
		what = "stand above %s times both neighbours"
	}

	out.ok, out.value = len(bad) <= c.Max, number(float64(len(bad)))
	out.message = fmt.Sprintf("%d of %d steps along %s "+what, len(bad), steps, strings.Join(axes, ", "), number(c.Ratio))
	if aside > 0 {
		out.message += fmt.Sprintf("; %d rows have no neighbour above the floor", aside)
	}

	out.rows = s.worst(bad, "kernel_source", metric)
	if !out.ok {
		out.fix = "measure these rows and their neighbours again; when they stay, look at which kernel ran"
	}

	return out
}

// compare finds falls or spikes along every axis. It marks in seen the rows that it compared.
func (c *trend) compare(s *subject, rec arrow.Record, rows []int, axes, key []string, metric string,
	seen []bool) (bad []offender, steps int, err error) {
	find := physics.Falls
	if c.spikes {
		find = physics.Spikes
	}

	t, _ := dedupe.PerfTable(s.ds)
	o := physics.TrendOptions{Metric: metric, Ratio: c.Ratio, Floor: physics.FloorOf(t),
		Compared: func(row int) { seen[row] = true }}
	for _, axis := range axes {
		found, n, err := find(rec, axis, key, o)
		if err != nil {
			return nil, 0, err
		}

		steps += n

		for _, v := range found {
			worse := v.Ratio
			if !c.spikes {
				worse = 1 / v.Ratio
			}
			bad = append(bad, offender{row: original(rows, v.Row), worse: worse,
				note: fmt.Sprintf("(x %s against %s)", number(v.Ratio), s.describe(original(rows, v.Other), metric))})
		}
	}

	return bad, steps, nil
}

// extent counts the rows that were compared, adds those that cannot be compared to left, and counts as
// aside those that the limits exclude: below the floor, or without a neighbour.
func (c *trend) extent(s *subject, rec arrow.Record, rows []int, axes, key []string, values series, seen []bool,
	left *leftover) (judged, aside int, err error) {
	cols := slices.Clone(key)
	for _, col := range []string{"op_name", "kernel_source"} {
		if !slices.Contains(cols, col) && column(rec, col) != nil {
			cols = append(cols, col)
		}
	}

	ix := table.NewKeyIndex(cols, table.KeyOptions{})
	ids, err := ix.Number(rec)
	if err != nil {
		return 0, 0, err
	}

	at := make([]series, len(axes))
	for a, name := range axes {
		if at[a], err = numbers(s.rec, name); err != nil {
			return 0, 0, err
		}
	}

	taken := make([]bool, ix.Len())
	metric := s.metric()
	for i, id := range ids {
		row := original(rows, i)
		why := values.unfit(metric, row, false)
		for a, name := range axes {
			if v := at[a].val[row]; why == "" && (math.IsNaN(v) || math.IsInf(v, 0)) {
				why = at[a].unfit(name, row, true)
			}
		}

		switch {
		case why != "" && zeroAllowed(s.ds) && values.val[row] == 0:
			aside++ // a difference of zero has no ratio
		case why != "":
			left.row(row, why)
		case taken[id]:
			left.row(row, "it repeats a key, and only one row of each is compared")
		case seen[i]:
			judged++
		default:
			aside++
		}

		if why == "" {
			taken[id] = true
		}
	}

	return judged, aside, nil
}
