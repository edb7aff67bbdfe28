package lint

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// Limits of the rules that compare the values of columns between the tables of one name.
const (
	fewestOthers = 3    // tables that have a value
	fewestPeers  = 2    // tables that have two columns the other way round
	exchangedBy  = 0.2  // how much better two columns must fit if they are exchanged
	mostValues   = 1024 // of a column of sizes
)

// sizes are the columns whose values are the same in the tables of all systems and frameworks.
var sizes = strings.Fields("m n k batch_size isl step num_tokens num_token seq_len message_size num_heads num_gpus " +
	"window_size")

// sizesOf returns the values of the key's columns of integers, sorted.
func sizesOf(f *loaded) map[string][]int64 {
	out := map[string][]int64{}
	for _, name := range f.key() {
		col, err := table.Int64s(f.rec, name)
		if err != nil {
			continue
		}
		var values []int64
		for i, v := range col.Values {
			if !col.Null(i) {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		if values = slices.Compact(values); len(values) <= mostValues {
			out[name] = values
		}
	}
	return out
}

// values compares the newest table of every backend with all other tables of its name.
func (l *linter) values() {
	tables := map[string][]*sample{}
	for _, s := range l.kept {
		tables[s.Table] = append(tables[s.Table], s)
	}

	for _, all := range tables {
		for i, s := range all {
			if s.latest {
				others := slices.Concat(all[:i], all[i+1:])
				l.missing(s, others)
				l.exchanged(s, others)
			}
		}
	}
}

// missing reports sizes that all other tables have.
func (l *linter) missing(s *sample, others []*sample) {
	for _, name := range sizes {
		var common []int64
		n := 0
		for _, o := range others {
			values := o.sizes[name]
			if values == nil {
				continue
			}
			if n++; n == 1 {
				common = slices.Clone(values)
			}
			common = slices.DeleteFunc(common, func(v int64) bool { return !contains(values, v) })
		}

		own := s.sizes[name]
		common = slices.DeleteFunc(common, func(v int64) bool { return contains(own, v) })
		if own == nil || n < fewestOthers || len(common) == 0 {
			continue
		}

		text := textutil.First(strings.Fields(strings.Trim(fmt.Sprint(common), "[]")), 5, ", ")
		l.add(Finding{Rule: "missing", Path: s.Path, Table: s.Table, Count: len(common), Message: fmt.Sprintf(
			"%s lacks values that all %d other tables have: %s", name, n, text)})
	}
}

// exchanged reports two columns of sizes that fit better to those of all other tables if they are exchanged.
func (l *linter) exchanged(s *sample, others []*sample) {
	for a, av := range s.sizes {
		for b, bv := range s.sizes {
			if a >= b {
				continue
			}

			n, worst := 0, 2.0
			for _, o := range others {
				if oa, ob := o.sizes[a], o.sizes[b]; oa != nil && ob != nil {
					n++
					worst = min(worst, common(av, ob)+common(bv, oa)-common(av, oa)-common(bv, ob))
				}
			}
			if n >= fewestPeers && worst > exchangedBy {
				l.found("exchanged", s.Path, s.Table, "%s has the values that %s has in all %d other tables, and the other way "+
					"round", a, b, n)
			}
		}
	}
}

func contains(sorted []int64, v int64) bool {
	_, found := slices.BinarySearch(sorted, v)
	return found
}

// common returns the share of values of either list that both have.
func common(a, b []int64) float64 {
	both := 0
	for _, v := range a {
		if contains(b, v) {
			both++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
