package rowkey

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// Order returns the positions of the rows of rec sorted by columns: numbers by
// size, text by bytes, nulls last; a column written as "-name" is sorted from its
// largest value on, nulls first. Rows that agree on all of them follow the
// remaining columns of the record, so that the result does not depend on the
// order of the rows. Columns that rec lacks are ignored.
func Order(rec arrow.Record, columns []string) ([]int, error) {
	rec, err := Plain(rec)
	if err != nil {
		return nil, err
	}
	n := int(rec.NumRows())
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	var sorted []rank
	columns = slices.Clone(columns)
	for i, name := range columns {
		name, falling := strings.CutPrefix(name, "-")
		columns[i] = name
		if table.Has(rec, name) {
			r, err := rankOf(rec, name)
			if err != nil {
				return nil, err
			}
			if falling {
				r.reverse()
			}
			sorted = append(sorted, r)
		}
	}
	// A stable counting sort per column, the last column first: linear in the
	// rows, whatever order they come in.
	spare := make([]int, n)
	for i := len(sorted) - 1; i >= 0; i-- {
		if sorted[i].distinct > 1 {
			sorted[i].sort(rows, spare)
			rows, spare = spare, rows
		}
	}
	return rows, breakTies(rec, columns, sorted, rows)
}

// rank numbers a column's values in their order.
type rank struct {
	of       []uint32
	distinct int
}

func (r rank) sort(from, to []int) {
	start := make([]int, r.distinct+1)
	for _, row := range from {
		start[r.of[row]+1]++
	}
	for i := 1; i < len(start); i++ {
		start[i] += start[i-1]
	}
	for _, row := range from {
		v := r.of[row]
		to[start[v]] = row
		start[v]++
	}
}

// reverse numbers the values from the largest on.
func (r rank) reverse() {
	for i, v := range r.of {
		r.of[i] = uint32(r.distinct) - 1 - v
	}
}

func rankOf(rec arrow.Record, name string) (rank, error) {
	switch rec.Column(table.Index(rec, name)).DataType().ID() {
	case arrow.INT64:
		c, err := table.Int64s(rec, name)
		if err != nil {
			return rank{}, err
		}
		return ranks(c, cmp.Compare[int64]), nil
	case arrow.FLOAT64:
		c, err := table.Float64s(rec, name)
		if err != nil {
			return rank{}, err
		}
		return ranks(bits(c), func(a, b uint64) int {
			return compareFloats(math.Float64frombits(a), math.Float64frombits(b))
		}), nil
	case arrow.BOOL:
		c, err := table.Bools(rec, name)
		if err != nil {
			return rank{}, err
		}
		return ranks(c, func(a, b bool) int {
			switch {
			case a == b:
				return 0
			case a:
				return 1
			}
			return -1
		}), nil
	}
	c, err := table.Strings(rec, name)
	if err != nil {
		return rank{}, err
	}
	return ranks(c, strings.Compare), nil
}

// bits makes floats usable as map keys, NaN included.
func bits(c *table.Col[float64]) *bitCol {
	out := &bitCol{nulls: c}
	out.values = make([]uint64, len(c.Values))
	for i, v := range c.Values {
		out.values[i] = math.Float64bits(v)
	}
	return out
}

type bitCol struct {
	values []uint64
	nulls  *table.Col[float64]
}

func (c *bitCol) At(i int) (uint64, bool) { return c.values[i], !c.nulls.Null(i) }
func (c *bitCol) Len() int                { return len(c.values) }

type cells[T comparable] interface {
	At(int) (T, bool)
	Len() int
}

func ranks[T comparable](c cells[T], compare func(a, b T) int) rank {
	n := c.Len()
	code := map[T]uint32{}
	var values []T
	r := rank{of: make([]uint32, n)}
	const null = math.MaxUint32
	hasNull := false
	var last T
	var lastCode uint32
	for i := range n {
		v, ok := c.At(i)
		if !ok {
			r.of[i], hasNull = null, true
			continue
		}
		if len(values) > 0 && v == last {
			r.of[i] = lastCode
			continue
		}
		id, seen := code[v]
		if !seen {
			id = uint32(len(values))
			code[v] = id
			values = append(values, v)
		}
		r.of[i], last, lastCode = id, v, id
	}
	order := make([]uint32, len(values))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return compare(values[a], values[b]) })
	place := make([]uint32, len(values))
	for at, id := range order {
		place[id] = uint32(at)
	}
	r.distinct = len(values)
	if hasNull {
		r.distinct++
	}
	for i, id := range r.of {
		if id == null {
			r.of[i] = uint32(len(values))
		} else {
			r.of[i] = place[id]
		}
	}
	return r
}

// breakTies sorts runs of rows that agree on the sorted columns by all others.
func breakTies(rec arrow.Record, columns []string, sorted []rank, rows []int) error {
	var rest []rank
	for start := 0; start < len(rows); {
		end := start + 1
		for end < len(rows) && equalRanks(sorted, rows[start], rows[end]) {
			end++
		}
		if end-start > 1 {
			if rest == nil {
				for _, f := range rec.Schema().Fields() {
					if slices.Contains(columns, f.Name) {
						continue
					}
					r, err := rankOf(rec, f.Name)
					if err != nil {
						return err
					}
					rest = append(rest, r)
				}
			}
			slices.SortStableFunc(rows[start:end], func(a, b int) int {
				for _, r := range rest {
					if c := cmp.Compare(r.of[a], r.of[b]); c != 0 {
						return c
					}
				}
				return 0
			})
		}
		start = end
	}
	return nil
}

func equalRanks(ranks []rank, a, b int) bool {
	for _, r := range ranks {
		if r.of[a] != r.of[b] {
			return false
		}
	}
	return true
}

// compareFloats has NaN behind the numbers.
func compareFloats(a, b float64) int {
	switch an, bn := math.IsNaN(a), math.IsNaN(b); {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	}
	return cmp.Compare(a, b)
}

// Plain returns rec with columns of the four types of package table: rec itself
// where it has no others.
func Plain(rec arrow.Record) (arrow.Record, error) {
	for _, c := range rec.Columns() {
		switch c.DataType().ID() {
		case arrow.INT64, arrow.FLOAT64, arrow.STRING, arrow.BOOL:
		default:
			return table.Normal(rec)
		}
	}
	return rec, nil
}
