package collect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// rowStore stores measured rows by column, because a million rows as maps take gigabytes. Rows are
// numbered in order of arrival, and units refer to these numbers.
type rowStore struct {
	n        int
	attempts []int32
	workers  []int32 // index into words, as in the next three
	uuids    []int32
	labels   []int32 // three words per row, plus one; 0 without a label
	at       timeColumn
	words    []string
	numbers  map[string]int32 // index by word
	columns  map[string]*rowColumn
	schema   *schema
	attached map[int32][]stage.Attachment // by row; few rows have any
}

// Tags of the values in a column.
const (
	nothing byte = iota
	aNumber
	aWord
	aFlag // false
	aTrue
)

// rowColumn is one column. Its slices end at the last row with a value.
type rowColumn struct {
	metric bool
	tags   []byte
	floats []float64
	words  []int32
	others []any // columns that are not metrics, unconverted
}

// timeColumn contains the times at which rows were measured, in nanoseconds. Texts in another format
// than this package writes are kept as they are.
type timeColumn struct {
	nanos  []int64
	others map[int32]string
}

func (t *timeColumn) add(s []byte) {
	at, err := time.Parse(time.RFC3339Nano, string(s))
	var text [40]byte
	if year := at.Year(); err != nil || year < 1700 || year > 2200 ||
		!bytes.Equal(at.UTC().AppendFormat(text[:0], time.RFC3339Nano), s) {
		if t.others == nil {
			t.others = map[int32]string{}
		}
		t.others[int32(len(t.nanos))] = string(s)
	}
	t.nanos = append(t.nanos, at.UnixNano())
}

// append appends the time of row i.
func (t *timeColumn) append(b []byte, i int) []byte {
	if s, ok := t.others[int32(i)]; ok {
		return append(b, s...)
	}
	return time.Unix(0, t.nanos[i]).UTC().AppendFormat(b, time.RFC3339Nano)
}

func newRowStore(s *schema) *rowStore {
	return &rowStore{numbers: map[string]int32{}, columns: map[string]*rowColumn{}, schema: s,
		attached: map[int32][]stage.Attachment{}}
}

// word returns the index of a text, which many rows share.
func (s *rowStore) word(text []byte) int32 {
	if n, ok := s.numbers[string(text)]; ok {
		return n
	}
	n := int32(len(s.words))
	s.words = append(s.words, string(text))
	s.numbers[s.words[n]] = n
	return n
}

func (s *rowStore) column(name []byte) *rowColumn {
	c := s.columns[string(name)]
	if c == nil {
		c = &rowColumn{metric: slices.ContainsFunc(s.schema.fields, func(f field) bool { return f.name == string(name) })}
		s.columns[string(name)] = c
	}
	return c
}

// grown returns s extended to contain index i.
func grown[T any](s []T, i int) []T {
	if i < len(s) {
		return s
	}
	return append(s, make([]T, i+1-len(s))...)
}

func (c *rowColumn) tag(i int, t byte) {
	c.tags = grown(c.tags, i)
	c.tags[i] = t
}

// set sets a value of the row that is being added.
func (s *rowStore) set(name string, v any) {
	c := s.column([]byte(name))
	if !c.metric {
		c.tag(s.n, aWord)
		c.others = grown(c.others, s.n)
		c.others[s.n] = v
		return
	}

	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			c.tag(s.n, aNumber)
			c.floats = grown(c.floats, s.n)
			c.floats[s.n] = f
		}
	case string:
		s.setWord(c, []byte(v))
	case bool:
		s.setFlag(c, v)
	}
}

func (s *rowStore) setWord(c *rowColumn, v []byte) {
	c.tag(s.n, aWord)
	c.words = grown(c.words, s.n)
	c.words[s.n] = s.word(v)
}

func (s *rowStore) setFlag(c *rowColumn, v bool) {
	if v {
		c.tag(s.n, aTrue)
	} else {
		c.tag(s.n, aFlag)
	}
}

// end completes the row that is being added.
func (s *rowStore) end(attempts int, worker, uuid, at []byte, l *label) {
	s.attempts = append(s.attempts, int32(attempts))
	s.workers = append(s.workers, s.word(worker))
	s.uuids = append(s.uuids, s.word(uuid))
	s.at.add(at)
	if l != nil {
		s.labels = grown(s.labels, 3*s.n+2)
		for i, text := range []string{l.Framework, l.Version, l.Device} {
			s.labels[3*s.n+i] = s.word([]byte(text)) + 1 // 0 means no label
		}
	}

	s.n++
}

// add adds the rows of an entry and returns the first index and the number of rows.
func (s *rowStore) add(e *entry) (first, n int) {
	first = s.n
	for _, row := range e.Rows {
		for name, v := range row {
			s.set(name, v)
		}
		if len(e.Attachments) > 0 {
			s.attached[int32(s.n)] = e.Attachments
		}
		s.end(e.Attempts, []byte(e.Worker), []byte(e.DeviceUUID), []byte(e.At), e.Label)
	}

	return first, len(e.Rows)
}

// texts builds a text column for the rows in at.
func (s *rowStore) texts(at []int32, of []int32) arrow.Array {
	return table.TextsOf(len(at), func(i int, b []byte) []byte { return append(b, s.words[of[at[i]]]...) })
}

// label builds the column framework, version or device for the rows in at. otherwise is the value of
// rows without a label.
func (s *rowStore) label(at []int32, which int, otherwise string) arrow.Array {
	return table.TextsOf(len(at), func(i int, b []byte) []byte {
		if k := 3*int(at[i]) + which; k < len(s.labels) && s.labels[k] > 0 {
			return append(b, s.words[s.labels[k]-1]...)
		}
		return append(b, otherwise...)
	})
}

func (s *rowStore) tagOf(c *rowColumn, row int32) byte {
	if int(row) >= len(c.tags) {
		return nothing
	}
	return c.tags[row]
}

// metric builds a metric column for the rows in at.
func (s *rowStore) metric(at []int32, name string, k columnKind) arrow.Array {
	c := s.columns[name]
	if c == nil {
		c = &rowColumn{}
	}

	n := len(at)
	valid := make([]bool, n)
	whole := true
	for i, r := range at {
		valid[i] = s.tagOf(c, r) != nothing
		whole = whole && valid[i]
	}

	use := valid
	if whole {
		use = nil
	}

	float := func(r int32) float64 {
		if s.tagOf(c, r) != aNumber {
			return 0
		}
		return c.floats[r]
	}

	switch k {
	case integer:
		out := make([]int64, n)
		for i, r := range at {
			out[i] = int64(float(r))
		}
		return table.Ints(out, use)

	case flag:
		out := make([]bool, n)
		for i, r := range at {
			out[i] = s.tagOf(c, r) == aTrue
		}
		return table.Flags(out, use)

	case word:
		if whole {
			return table.TextsOf(n, func(i int, b []byte) []byte {
				if s.tagOf(c, at[i]) == aWord {
					b = append(b, s.words[c.words[at[i]]]...)
				}
				return b
			})
		}

		out := make([]string, n)
		for i, r := range at {
			if s.tagOf(c, r) == aWord {
				out[i] = s.words[c.words[r]]
			}
		}

		return table.Texts(out, use)
	}

	out := make([]float64, n)
	for i, r := range at {
		out[i] = float(r)
	}

	return table.Floats(out, use)
}

// extras returns the names of the columns that are not metrics and have a value in one of the rows in
// at.
func (s *rowStore) extras(at []int32) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.columns)) {
		c := s.columns[name]
		if !c.metric && slices.ContainsFunc(at, func(r int32) bool { return s.tagOf(c, r) != nothing }) {
			out = append(out, name)
		}
	}
	return out
}

// extra builds a column that the worker added. Values of mixed types are converted to text, so that one
// row cannot invalidate the others; mixed is then true.
func (s *rowStore) extra(at []int32, name string) (col arrow.Array, mixed bool) {
	c := s.columns[name]
	build := func(conv func(any) any) (arrow.Array, error) {
		b := table.NewBuilder(arrow.Field{Name: name})
		for _, r := range at {
			var v any
			if s.tagOf(c, r) != nothing {
				v = c.others[r]
			}
			if err := b.Append(map[string]any{name: conv(v)}); err != nil {
				return nil, err
			}
		}

		return b.Record().Column(0), nil
	}

	col, err := build(func(v any) any { return v })
	if mixed = err != nil; mixed {
		col, err = build(func(v any) any {
			if v == nil {
				return nil
			}
			return fmt.Sprint(v)
		})
	}

	if err != nil {
		panic("collect: a column of texts: " + err.Error())
	}

	return col, mixed
}
