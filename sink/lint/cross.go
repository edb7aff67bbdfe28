package lint

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	"aicplan/sink/base/stats"
	"aicplan/sink/diff"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// Limits of the rules that compare tables.
const (
	pairFactor    = 3.0  // from the local baseline
	regionFactor  = 3.0  // of a region's median from the op's
	offsetFactor  = 1.15 // of medians, the same way on several systems
	offsetSystems = 3
	offsetSpread  = 2.0 // between those medians
	machineFactor = 2.0 // of an op's ratio between systems from the other ops'
	minPoints     = 5   // for a baseline
)

// median is one comparison, kept for the rules over systems.
type median struct {
	table, system, a, b string // backends a and b
	path                string
	p50                 float64
}

// pairs compares the latest tables of every two backends of a system.
func (l *linter) pairs(latest map[string]*loaded) {
	names := slices.Sorted(maps.Keys(latest))
	for i, a := range names {
		for _, b := range names[i+1:] {
			l.pair(latest[a], latest[b])
		}
	}
}

func (l *linter) pair(a, b *loaded) {
	metric := a.table.Metrics()[0]
	// Kernels have other names in other frameworks: they are no part of what
	// two backends have in common.
	key := slices.DeleteFunc(a.key(),
		func(c string) bool { return c == "kernel_source" || c == "backend" || c == "implementation" })
	if !table.Has(a.rec, metric) || !table.Has(b.rec, metric) ||
		slices.ContainsFunc(key, func(c string) bool { return !table.Has(b.rec, c) }) {
		return
	}
	r, err := diff.Tables(a.rec, b.rec, a.Path, b.Path, diff.Options{Table: a.Table, Key: key, By: []string{}, Worst: 1})
	if err != nil || r.Ratio == nil {
		return
	}
	l.mu.Lock()
	l.medians = append(l.medians,
		median{table: a.Table, system: a.System, a: a.Backend, b: b.Backend, path: b.Path, p50: r.Ratio.P50})
	l.mu.Unlock()
	l.outliers(a, b, r, metric)
}

// outliers finds rows and regions whose ratio is far from the usual one around them: in their size class,
// else in their series, else in the op.
func (l *linter) outliers(a, b *loaded, r *diff.Comparison, metric string) {
	pairs, ratios := r.Pairs()
	values, err := table.Float64s(b.rec, metric)
	if err != nil {
		return
	}
	words := slices.DeleteFunc(slices.Clone(r.Key), func(c string) bool {
		_, err := table.Strings(b.rec, c)
		return err != nil
	})
	series, _ := table.Number(b.rec, words...)
	type region struct {
		series uint32
		size   int
	}
	regionOf := func(p diff.Pair) region {
		return region{series[p.B], int(math.Floor(math.Log2(values.Values[p.B])))}
	}
	byRegion, bySeries := map[region][]float64{}, map[uint32][]float64{}
	first := map[region]int{} // a row of each region
	for i, p := range pairs {
		g := regionOf(p)
		if byRegion[g] == nil {
			first[g] = p.B
		}
		byRegion[g] = append(byRegion[g], ratios[i])
		bySeries[g.series] = append(bySeries[g.series], ratios[i])
	}

	op := r.Ratio.P50
	regionMid, seriesMid := middles(byRegion), middles(bySeries)
	var rows []rules.Offence
	for i, p := range pairs {
		g := regionOf(p)
		base := op
		switch {
		case len(byRegion[g]) >= minPoints:
			base = regionMid[g]
		case len(bySeries[g.series]) >= minPoints:
			base = seriesMid[g.series]
		}

		if far := apart(ratios[i], base); far > pairFactor {
			rows = append(rows, rules.Offence{Row: p.B, Excess: far, Note: fmt.Sprintf("%s: %s / %s is %.3g, around it %.3g",
				b.describe(p.B, metric), b.Backend, a.Backend, ratios[i], base)})
		}
	}

	slices.SortStableFunc(rows, func(x, y rules.Offence) int {
		return cmp.Or(cmp.Compare(y.Excess, x.Excess), cmp.Compare(x.Row, y.Row))
	})
	var lines []string
	for _, o := range rows {
		lines = append(lines, o.Note)
	}
	l.lines(b, "pair_outlier", lines, "%d of %d rows are more than %g times off the usual ratio to %s",
		len(rows), len(pairs), pairFactor, a.Path)

	var regions []string
	for g, mid := range regionMid {
		if len(byRegion[g]) >= minPoints && apart(mid, op) > regionFactor {
			regions = append(regions, fmt.Sprintf("%s around %.3g %s: %s / %s is %.3g over %d rows, overall %.3g",
				table.Describe(b.rec, first[g], words), math.Exp2(float64(g.size)), b.table.LatencyUnit(), b.Backend, a.Backend,
				mid, len(byRegion[g]), op))
		}
	}

	slices.Sort(regions)
	l.lines(b, "region_deviation", regions, "%d regions are more than %g times off the op's ratio to %s", len(regions),
		regionFactor, a.Path)
}

func middles[K comparable](groups map[K][]float64) map[K]float64 {
	out := map[K]float64{}
	for k, v := range groups {
		out[k] = middle(v)
	}
	return out
}

func middle(v []float64) float64 { return stats.Rank(slices.Sorted(slices.Values(v)), 0.5) }

// apart returns the factor between two positive numbers, at least 1.
func apart(a, b float64) float64 { return max(a/b, b/a) }

// sample has the latencies of some rows of a table by the hash of their key. It is small enough to keep
// for a whole database.
type sample struct {
	tree.Entry
	latency map[uint64]float64
	exact   float64 // values up to it agree by chance
	latest  bool    // no newer version of the backend has the table
	sizes   map[string][]int64
}

// sampleAbove is the number of rows above which only a part of a table is kept.
const sampleAbove = 1 << 14

// keepLatency samples a table. The same keys are chosen on every system.
func (l *linter) keepLatency(f *loaded, latest bool) {
	values, err := table.Float64s(f.rec, f.table.Metrics()[0])
	if err != nil {
		return
	}
	key := slices.DeleteFunc(f.table.Key(), func(c string) bool { return !table.Has(f.rec, c) })
	slices.Sort(key) // tables of other versions may have their columns in another order
	keys := table.Keys(f.rec, key...)
	every := uint64(1)
	if len(keys) > sampleAbove {
		every = 8
	}
	t, err := rules.New(f.rec, f.table, f.names)
	if err != nil {
		return
	}
	s := &sample{Entry: f.Entry, latency: map[uint64]float64{}, exact: t.Exact(), latest: latest, sizes: sizesOf(f)}
	for i, k := range keys {
		h := fnv.New64a()
		h.Write([]byte(strings.Join(key, ",")))
		h.Write([]byte(k))
		sum := h.Sum64()
		if _, dup := s.latency[sum]; dup || sum%every != 0 || values.Null(i) || !(values.Values[i] > 0) {
			continue
		}
		s.latency[sum] = values.Values[i]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, s)
}

// overSystems looks for what only several systems show together.
func (l *linter) overSystems() {
	slices.SortFunc(l.kept, func(a, b *sample) int { return cmp.Compare(a.Path, b.Path) })
	l.offsets()
	l.machines()
	l.copied()
	l.values()
}

// Limits of copied tables.
const (
	copiedShare = 0.05 // of the common rows; less than one in a hundred agrees by chance
	copiedRows  = 20   // common rows that must agree
)

// copied finds tables that repeat another table to the last digit: rows of another system, backend or
// version under a new label.
func (l *linter) copied() {
	for i, a := range l.kept {
		for _, b := range l.kept[i+1:] {
			if a.Table != b.Table {
				continue
			}

			common, equal := 0, 0
			for k, v := range a.latency {
				if w, ok := b.latency[k]; ok && v > max(a.exact, b.exact) {
					common++
					if v == w {
						equal++
					}
				}
			}

			if equal >= copiedRows && float64(equal) > copiedShare*float64(common) {
				l.add(Finding{Rule: "copies", Path: b.Path, Table: b.Table, Count: equal,
					Message: fmt.Sprintf("%d of %d compared rows repeat those of %s to the last digit", equal, common, a.Path)})
			}
		}
	}
}

// offsets finds pairs of backends that differ the same way on several systems.
func (l *linter) offsets() {
	groups := map[[3]string][]median{}
	for _, m := range l.medians {
		k := [3]string{m.table, m.a, m.b}
		groups[k] = append(groups[k], m)
	}
	for k, list := range groups {
		slices.SortFunc(list, func(a, b median) int { return cmp.Compare(a.system, b.system) })
		for _, above := range []bool{true, false} {
			var off []median
			for _, m := range list {
				if above && m.p50 > offsetFactor || !above && m.p50 < 1/offsetFactor {
					off = append(off, m)
				}
			}
			if len(off) < offsetSystems {
				continue
			}
			lo, hi := math.Inf(1), 0.0
			var parts []string
			for _, m := range off {
				lo, hi = min(lo, m.p50), max(hi, m.p50)
				parts = append(parts, fmt.Sprintf("%s %.3f", m.system, m.p50))
			}
			if hi/lo > offsetSpread {
				continue
			}
			l.found("systematic_offset", off[0].path, k[0],
				"the median of %s / %s is off the same way on %d systems: %s", k[2], k[1], len(off),
				strings.Join(parts, ", "))
		}
	}
}

// machines compares every op's ratio between two systems with that of the
// other ops of the same backend.
func (l *linter) machines() {
	type pair struct{ backend, a, b string }
	type op struct {
		s     *sample
		ratio float64
	}
	ops := map[pair][]op{}
	for i, a := range l.kept {
		for _, b := range l.kept[i+1:] {
			if !a.latest || !b.latest || a.Table != b.Table || a.Backend != b.Backend || a.System == b.System {
				continue
			}
			var ratios []float64
			for k, v := range a.latency {
				if w, ok := b.latency[k]; ok {
					ratios = append(ratios, w/v)
				}
			}
			if len(ratios) >= minPoints {
				k := pair{a.Backend, a.System, b.System}
				ops[k] = append(ops[k], op{b, middle(ratios)})
			}
		}
	}
	for k, list := range ops {
		if len(list) < 3 {
			continue // of two ops, either may be the odd one
		}
		var all []float64
		for _, o := range list {
			all = append(all, o.ratio)
		}
		mid := middle(all)
		for _, o := range list {
			if apart(o.ratio, mid) > machineFactor {
				l.found("machine_op_deviation", o.s.Path, o.s.Table,
					"%s takes %.3g times as long on %s as on %s with %s, the median of the ops is %.3g times",
					o.s.Table, o.ratio, k.b, k.a, k.backend, mid)
			}
		}
	}
}
