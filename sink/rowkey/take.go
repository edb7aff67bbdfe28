package rowkey

import (
	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// Take returns the rows of rec at the positions given, in that order.
func Take(rec arrow.Record, rows []int) (arrow.Record, error) {
	rec, err := table.Normal(rec)
	if err != nil {
		return nil, err
	}
	names := table.Names(rec)
	cols := make([]arrow.Array, len(names))
	for i, name := range names {
		switch rec.Column(i).DataType().ID() {
		case arrow.INT64:
			c, err := table.Int64s(rec, name)
			if err != nil {
				return nil, err
			}
			cols[i] = table.Ints(pick(c, rows))
		case arrow.FLOAT64:
			c, err := table.Float64s(rec, name)
			if err != nil {
				return nil, err
			}
			cols[i] = table.Floats(pick(c, rows))
		case arrow.BOOL:
			c, err := table.Bools(rec, name)
			if err != nil {
				return nil, err
			}
			cols[i] = table.Flags(pick(c, rows))
		default:
			c, err := table.Strings(rec, name)
			if err != nil {
				return nil, err
			}
			cols[i] = table.Texts(pick(c, rows))
		}
	}
	return table.NewRecord(names, cols), nil
}

func pick[T any](c *table.Col[T], rows []int) ([]T, []bool) {
	out := make([]T, len(rows))
	var valid []bool
	if c.Nulls() > 0 {
		valid = make([]bool, len(rows))
	}
	for i, r := range rows {
		out[i] = c.Values[r]
		if valid != nil {
			valid[i] = !c.Null(r)
		}
	}
	return out, valid
}
