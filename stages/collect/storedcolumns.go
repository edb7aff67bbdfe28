package collect

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// storedColumns are the measured columns of the stage's stored table. A table of
// measurements is put together of them and of the new rows, so that old rows are
// never looked at one by one.
type storedColumns struct {
	n, want int // rows, and about how many there are going to be
	columns map[string]*table.Stack
}

// inStored marks the number of a row of storedColumns; others are of the rowStore.
const inStored = 1 << 30

// whole says whether the columns of a stored table from one on are those, and of
// the types, that the stage makes of rows without columns of the worker's own: then
// they can be taken as they are.
func (s *schema) whole(rec arrow.Record, from int) bool {
	need := []string{"framework", "version", "device", "attempts", "worker", "device_uuid", "started_at"}
	for c := from; c < int(rec.NumCols()); c++ {
		name, col := rec.ColumnName(c), rec.Column(c)
		want := table.String
		if at := slices.IndexFunc(s.fields, func(f field) bool { return f.name == name }); at >= 0 {
			want = s.fields[at].kind.arrow()
		} else if !slices.Contains(need, name) || col.NullN() > 0 {
			return false
		}
		if name == "attempts" {
			want = table.Int64
		}
		if col.DataType().ID() != want.ID() {
			return false
		}
		need = slices.DeleteFunc(need, func(n string) bool { return n == name })
	}
	return len(need) == 0 && !table.Has(rec, stage.AttachmentsColumn)
}

// arrow is the type of a column of a kind.
func (k columnKind) arrow() arrow.DataType {
	switch k {
	case integer:
		return table.Int64
	case flag:
		return table.Bool
	case word:
		return table.String
	}
	return table.Float64
}

// add keeps the columns of one part.
func (c *storedColumns) add(rec arrow.Record, from int) error {
	for i := from; i < int(rec.NumCols()); i++ {
		if err := c.column(rec.ColumnName(i), rec.Column(i).DataType()).Append(rec.Column(i)); err != nil {
			return err
		}
	}
	c.n += int(rec.NumRows())
	for _, s := range c.columns {
		s.Fill(c.n)
	}
	return nil
}

// column is one column; where it is new, earlier rows have no value.
func (c *storedColumns) column(name string, t arrow.DataType) *table.Stack {
	s := c.columns[name]
	if s == nil {
		s = table.NewStack(t, max(c.n, c.want))
		s.Fill(c.n)
		c.columns[name] = s
	}
	return s
}

// gathering makes columns of the rows of a table, some of which are stored.
type gathering struct {
	stored *storedColumns
	rows   []int32 // those of the rowStore
	order  []int   // where each row is, behind the stored ones; nil where that is its place
}

func gather(rows []int32, stored *storedColumns) *gathering {
	g := &gathering{stored: stored, rows: rows}
	if stored == nil {
		return g
	}
	g.rows = nil
	inPlace := true
	at := func(i int, r int32) int {
		if r >= inStored {
			return int(r - inStored)
		}
		return stored.n + i
	}
	for i, r := range rows {
		inPlace = inPlace && at(len(g.rows), r) == i
		if r < inStored {
			g.rows = append(g.rows, r)
		}
	}
	if inPlace && len(rows) == stored.n+len(g.rows) {
		return g
	}
	g.order = make([]int, len(rows))
	own := 0
	for i, r := range rows {
		g.order[i] = at(own, r)
		if r < inStored {
			own++
		}
	}
	return g
}

// column is one column: what is stored of it, and own, which is that of g.rows. The
// stored one is not needed any more.
func (g *gathering) column(name string, own arrow.Array) (arrow.Array, error) {
	if g.stored == nil {
		return own, nil
	}
	all := g.stored.column(name, own.DataType())
	delete(g.stored.columns, name)
	if err := all.Append(own); err != nil {
		return nil, fmt.Errorf("column %q: %w", name, err)
	}
	if g.order == nil {
		return all.Array(), nil
	}
	return table.TakeColumn(all.Array(), g.order), nil
}
