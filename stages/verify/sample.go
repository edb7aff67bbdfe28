package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
)

// sample draws rows. Every combination of the columns in By gets a row if the sample is large enough. The others are
// evenly spread over the combinations, and over short and long rows of each. The same seed draws the same rows of the
// same data, regardless of their order.
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
			return nil, fmt.Errorf("by: %w", table.Missing(rec, name))
		}
	}

	if len(by) == 0 {
		by = words(rec, ds.Info.Params)
	}

	metric := dedupe.SchemaOf(ds).Primary().Name
	lat, err := table.Float64s(rec, metric)
	if err != nil {
		return nil, err
	}

	ids, _ := table.Number(rec, by...)
	var groups [][]int // of rows with equal columns, from short to long ones
	last := -1
	for _, row := range table.Order(rec, slices.Concat(by, []string{metric, "case_id"})) {
		if v, ok := lat.At(row); !ok || !(v > 0) || math.IsInf(v, 0) {
			continue
		}
		if id := int(ids[row]); id != last {
			groups, last = append(groups, nil), id
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], row)
	}

	rng := rand.New(rand.NewPCG(uint64(c.Seed), 0x76657269))
	var out, rest []int
	for _, i := range rng.Perm(len(groups)) {
		drawn, others := draw(rng, groups[i], min(1, c.Sample-len(out)))
		out, rest = append(out, drawn...), append(rest, others...)
	}

	drawn, _ := draw(rng, rest, min(c.Sample-len(out), len(rest)))
	return slices.Sorted(slices.Values(append(out, drawn...))), nil
}

// draw draws one row of each of n equal parts of rows.
func draw(rng *rand.Rand, rows []int, n int) (drawn, others []int) {
	for part := range n {
		from, to := part*len(rows)/n, (part+1)*len(rows)/n
		at := from + rng.IntN(to-from)
		drawn = append(drawn, rows[at])
		others = append(append(others, rows[from:at]...), rows[at+1:to]...)
	}
	if n == 0 {
		others = rows
	}
	return drawn, others
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
