package gate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/sink/table"
)

// nodes: the nodes that measured the rows are alike.
type nodes struct {
	Max        float64 `hcl:"max,optional" json:"max"`                 // share by which a node may differ from the median of all
	SameDriver bool    `hcl:"same_driver,optional" json:"same_driver"` // all have one driver
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
	mixed := c.drivers(s, names.Values)
	if len(by) == 0 && mixed == nil {
		return out
	}
	order := make([]string, 0, len(by))
	for node := range by {
		order = append(order, node)
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(math.Abs(by[b]), math.Abs(by[a])), cmp.Compare(a, b))
	})
	var list []offender
	var bad []string
	for _, node := range order {
		if math.Abs(by[node]) <= c.Max {
			continue
		}
		bad = append(bad, node)
		list = append(list, offender{row: rows[node][0], note: fmt.Sprintf("(%d rows of %s, %+.1f %%)", len(rows[node]), node, 100*by[node])})
	}
	out.ok = len(list) == 0 && mixed == nil
	var says []string
	if len(order) > 0 {
		out.value = fmt.Sprintf("%+.1f %%", 100*by[order[0]])
		says = append(says, fmt.Sprintf("%d of %d nodes differ from the median of all; the farthest is %s", len(bad), len(by), order[0]))
	}
	if mixed != nil {
		says = append(says, "the rows are of "+strings.Join(mixed, " and of "))
		out.fix = "name nodes with one driver by constraint, or exclude, of the executor, and measure the others' rows again with apply -replace; or set same_driver = false"
	}
	out.message = strings.Join(says, "; ")
	if len(list) > 0 {
		out.rows = s.worst(list)
		out.fix = "leave the nodes out and measure their rows again: options = { exclude = \"" + strings.Join(bad, ",") + "\" } in the executor, then apply -replace"
	}
	return out
}

// drivers says which drivers the rows are of, with their nodes, where there are
// several; nil where there is one, or none is known.
func (c *nodes) drivers(s *subject, nodes []string) []string {
	if !c.SameDriver || !table.Has(s.rec, "driver") {
		return nil
	}
	col, err := table.Strings(s.rec, "driver")
	if err != nil {
		return nil // the column is another's
	}
	on, rows := map[string][]string{}, map[string]int{}
	for i, driver := range col.Values {
		if !s.has(i) || driver == "" {
			continue
		}
		rows[driver]++
		if !slices.Contains(on[driver], nodes[i]) {
			on[driver] = append(on[driver], nodes[i])
		}
	}
	if len(on) < 2 {
		return nil
	}
	var out []string
	for _, driver := range slices.Sorted(maps.Keys(on)) {
		const most = 5
		list := slices.Sorted(slices.Values(on[driver]))
		text := strings.Join(list[:min(len(list), most)], ", ")
		if more := len(list) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, fmt.Sprintf("driver %s (%d rows of %s)", driver, rows[driver], text))
	}
	return out
}
