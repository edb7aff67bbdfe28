package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/sink/table"
)

// nodes: the nodes that measured the rows are alike.
type nodes struct {
	Max float64 `hcl:"max,optional" json:"max"` // share by which a node may differ from the median of all
}

func (c *nodes) prepare(r hcl.Range) hcl.Diagnostics {
	if !(c.Max > 0) {
		return hcl.Diagnostics{problem("Wrong limit", fmt.Sprintf("max is %s; it is a share above 0.", number(c.Max)), r)}
	}
	return nil
}

func (c *nodes) run(s *subject) finding {
	out := finding{total: s.selected, ok: true, limit: "at most " + percent(c.Max)}
	if s.rec == nil {
		return s.cannot("there are no rows")
	}
	names, err := table.Strings(s.rec, "node")
	if err != nil {
		return s.cannot("the data has no column \"node\": only tasks of an executor say where they measured")
	}
	col, err := numbers(s.rec, "node_deviation")
	if err != nil {
		return s.cannot("the data has no column \"node_deviation\": the executor has no block sentinels")
	}
	by := map[string]float64{}
	rows := map[string][]int{}
	for i, v := range col.val {
		switch {
		case !s.has(i):
		case col.null[i] || math.IsNaN(v):
			out.left.row(i, "its node measured no sentinel")
		default:
			node := names.Values[i]
			if math.Abs(v) > math.Abs(by[node]) || len(rows[node]) == 0 {
				by[node] = v
			}
			rows[node] = append(rows[node], i)
		}
	}
	if len(by) == 0 {
		return out
	}
	order := make([]string, 0, len(by))
	for node := range by {
		order = append(order, node)
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(math.Abs(by[b]), math.Abs(by[a])), cmp.Compare(a, b))
	})
	worst := order[0]
	out.value = fmt.Sprintf("%+.1f %%", 100*by[worst])
	var list []offender
	var bad []string
	for _, node := range order {
		if math.Abs(by[node]) <= c.Max {
			continue
		}
		bad = append(bad, node)
		list = append(list, offender{row: rows[node][0], note: fmt.Sprintf("(%d rows of %s, %+.1f %%)", len(rows[node]), node, 100*by[node])})
	}
	out.ok = len(list) == 0
	out.message = fmt.Sprintf("%d of %d nodes differ from the median of all; the farthest is %s", len(bad), len(by), worst)
	if !out.ok {
		out.rows = s.worst(list)
		out.fix = "leave the nodes out and measure their rows again: options = { exclude = \"" + strings.Join(bad, ",") + "\" } in the executor, then apply -replace"
	}
	return out
}
