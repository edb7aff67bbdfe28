package gate

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/sink/rules"
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

	out := finding{limit: fmt.Sprintf("at most %d", c.Max), total: s.rows()}
	nameless := s.nameless(key, &out.left)
	surplus := 0
	var all [][]int
	for _, rows := range table.Groups(table.Number(s.rec, key...)) {
		rows = slices.DeleteFunc(rows, func(r int) bool { return nameless[r] })
		if len(rows) > 1 {
			surplus += len(rows) - 1
			all = append(all, rows)
		}
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

	out.message = fmt.Sprintf("%d of %d rows repeat the key of an earlier row (%d keys; key: %s)", surplus, judged,
		len(all), strings.Join(key, ", "))
	metric, _ := numbers(s.rec, s.metric()) // nil if there is none
	for _, g := range rules.Repeats(all, metric)[:min(len(all), maxRows)] {
		out.rows = append(out.rows, table.Describe(s.rec, g.Rows[0], key)+": "+g.Note)
	}

	out.fix = "put a dedupe stage before this gate, or find out why the cases were collected twice"
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
