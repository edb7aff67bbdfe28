package verify

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
)

// sizeClasses is the number of latency classes of every stratum.
const sizeClasses = 4

// sample draws rows. Every combination of the columns in By, and every latency class in it, gets its
// share, at least one row if the sample is large enough. The same seed draws the same rows of the same
// data, regardless of their order.
func (c *Config) sample(ds *stage.Dataset) ([]int, error) {
	rec := ds.Table
	if !table.Has(rec, "case_id") {
		return nil, fmt.Errorf(
			"the rows have no case_id, so they cannot be measured again: only rows of a collect stage can be verified",
		)
	}

	by := c.By
	for _, name := range by {
		if !table.Has(rec, name) {
			return nil, fmt.Errorf("by: %w", &table.MissingError{Name: name, Have: table.Names(rec)})
		}
	}

	if len(by) == 0 {
		by = words(rec, ds.Info.Params)
	}

	lat, err := table.Float64s(rec, dedupe.SchemaOf(ds).Primary().Name)
	if err != nil {
		return nil, err
	}

	ix := table.NewKeyIndex(by, table.KeyOptions{})
	ids, err := ix.Number(rec)
	if err != nil {
		return nil, err
	}

	// Order by key first, so that the draw does not depend on the order of the rows.
	order, err := table.Order(rec, append(slices.Clone(by), "case_id"))
	if err != nil {
		return nil, err
	}

	var groups [][]int
	for i, row := range order {
		if i == 0 || ids[row] != ids[order[i-1]] {
			groups = append(groups, nil)
		}
		if v, ok := lat.At(row); ok && v > 0 && !math.IsInf(v, 0) {
			groups[len(groups)-1] = append(groups[len(groups)-1], row)
		}
	}

	var strata [][]int
	rng := rand.New(rand.NewPCG(uint64(c.Seed), 0x76657269))
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b int) int { return cmp.Compare(lat.Values[a], lat.Values[b]) })
		n := min(sizeClasses, len(g))
		for k := range n {
			part := slices.Clone(g[k*len(g)/n : (k+1)*len(g)/n])
			rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
			strata = append(strata, part)
		}
	}

	rng.Shuffle(len(strata), func(i, j int) { strata[i], strata[j] = strata[j], strata[i] })
	return deal(strata, c.Sample), nil
}

// deal takes n rows from the strata: one of each, then in proportion to their size.
func deal(strata [][]int, n int) []int {
	total := 0
	for _, s := range strata {
		total += len(s)
	}

	n = min(n, total)
	var out []int

	taken := make([]int, len(strata))
	for i, s := range strata {
		if len(out) < n && len(s) > 0 {
			out = append(out, s[0])
			taken[i] = 1
		}
	}

	for len(out) < n {
		// Take the stratum that lacks most of its share.
		best, behind := -1, math.Inf(-1)
		for i, s := range strata {
			if taken[i] >= len(s) {
				continue
			}
			if d := float64(len(s))/float64(total)*float64(n) - float64(taken[i]); d > behind {
				best, behind = i, d
			}
		}

		out = append(out, strata[best][taken[best]])
		taken[best]++
	}

	slices.Sort(out)
	return out
}

// words lists the parameters with words: dtypes, phases, distributions.
func words(rec arrow.Record, params []string) []string {
	var out []string
	for _, p := range params {
		if i := table.Index(rec, p); i >= 0 && rec.Column(i).DataType().ID() == arrow.STRING {
			out = append(out, p)
		}
	}
	return out
}
