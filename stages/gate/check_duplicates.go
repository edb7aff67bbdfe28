package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/sink/table"
	"aicplan/stages/dedupe"
)

// duplicates limits the number of rows that repeat the key of another row.
type duplicates struct {
	// Max is the largest accepted number of repeated rows.
	Max int `hcl:"max,optional" json:"max"`
}

func (c *duplicates) prepare(bad problems) { bad.negative("max", float64(c.Max)) }

func (c *duplicates) run(s *subject) finding {
	if s.rec == nil {
		return finding{}
	}

	key := s.fullKey()
	if err := lackingKey(s.rec, "the data", key); err != nil {
		return s.cannot(err.Error())
	}

	ix := table.NewKeyIndex(key, table.KeyOptions{})
	ids, err := ix.Number(s.rec)
	if err != nil {
		return s.cannot(err.Error())
	}

	out := finding{limit: fmt.Sprintf("at most %d", c.Max), total: s.rows()}
	nameless := s.nameless(key, &out.left)
	metric := s.metric()
	lat, latErr := numbers(s.rec, metric)
	type group struct {
		rows  []int
		ratio float64
	}

	surplus := 0
	var groups []group
	for _, rows := range table.Groups(ids, ix.Len()) {
		rows = slices.DeleteFunc(rows, func(r int) bool { return nameless[r] })
		if len(rows) < 2 {
			continue
		}

		surplus += len(rows) - 1
		g := group{rows: rows, ratio: math.NaN()}
		if latErr == nil {
			g.ratio = spread(lat, rows)
		}

		groups = append(groups, g)
	}

	judged := s.rows() - out.left.count()
	if judged == 0 {
		return out
	}

	out.ok, out.value = surplus <= c.Max, number(float64(surplus))
	if surplus == 0 {
		out.message = fmt.Sprintf("%d rows, each with its own key", judged)
		return out
	}

	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(len(b.rows), len(a.rows)))
	})

	out.message = fmt.Sprintf("%d of %d rows repeat the key of an earlier row (%d keys; key: %s)", surplus, judged,
		len(groups), strings.Join(key, ", "))
	for _, g := range groups[:min(len(groups), maxRows)] {
		text := fmt.Sprintf("%s: %d rows", table.Describe(s.rec, g.rows[0], key), len(g.rows))
		if !math.IsNaN(g.ratio) {
			var vals []string
			for _, r := range g.rows[:min(len(g.rows), 4)] {
				vals = append(vals, number(lat.Values[r]))
			}
			text += fmt.Sprintf(", %s %s, max/min %s", metric, strings.Join(vals, " "), number(g.ratio))
		}

		out.rows = append(out.rows, text)
	}

	out.fix = "put a dedupe stage before this gate, or find out why the cases were collected twice"
	all := make([][]int, len(groups))
	for i, g := range groups {
		all[i] = g.rows
	}

	if names := s.distinguishing(all, key); len(names) > 0 {
		out.fix = fmt.Sprintf(
			"the rows of a key are different cases, which differ in %s, and the key lacks that: collect one of its values, or "+
				"have a collect and a table for each",
			strings.Join(names, " and "),
		)
	}

	return out
}

// distinguishing lists the case parameters outside the key that differ between all rows of each group.
func (s *subject) distinguishing(groups [][]int, key []string) (names []string) {
	for _, name := range s.ds.Info.Params {
		if slices.Contains(key, name) || column(s.rec, name) == nil {
			continue
		}

		if !slices.ContainsFunc(groups, func(rows []int) bool {
			seen := map[string]bool{}
			for _, r := range rows {
				seen[table.Describe(s.rec, r, []string{name})] = true
			}
			return len(seen) < len(rows)
		}) {
			names = append(names, name)
		}
	}

	return names
}

// nameless marks rows with null in a required key column of the perf table, and adds them to left. Such
// rows cannot be identified.
func (s *subject) nameless(key []string, left *leftover) []bool {
	out := make([]bool, s.rec.NumRows())
	t, ok := dedupe.PerfTable(s.ds)
	if !ok {
		return out
	}

	for _, k := range key {
		arr := column(s.rec, k)
		if arr == nil || arr.NullN() == 0 || !slices.Contains(t.Required(), k) {
			continue
		}

		for i := range out {
			if !out[i] && arr.IsNull(i) {
				out[i] = true
				left.row(i, k+" is null")
			}
		}
	}

	return out
}

func spread(col *table.Col[float64], rows []int) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		lo, hi = min(lo, col.Values[r]), max(hi, col.Values[r])
	}

	if !(lo > 0) || math.IsInf(hi, 0) {
		return math.NaN()
	}
	return hi / lo
}
