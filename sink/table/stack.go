package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Stack puts parts of a column below each other as they come, so that the parts and
// the whole are never in memory together. Columns are of the four types (Normal).
type Stack struct {
	typ     arrow.DataType
	n, want int
	nulls   int    // rows so far, while all of them are null
	fixed   []byte // of numbers
	flags   []bool
	offsets []int32 // of texts
	text    []byte
	valid   []bool // nil while no row is null
	// While all rows have one text, it is here and nowhere else.
	same string
	one  bool
}

// NewStack begins a column of a type, which is going to have about that many rows.
func NewStack(t arrow.DataType, rows int) *Stack { return &Stack{typ: t, want: rows} }

// Fill adds rows without a value until there are n.
func (s *Stack) Fill(n int) {
	if n > s.n {
		s.spread()
		s.addNulls(n - s.n)
	}
}

// isOne says whether all rows have the same text.
func isOne(a *array.String) bool {
	if a.NullN() > 0 {
		return false
	}
	for i := range a.Len() {
		if a.Value(i) != a.Value(0) {
			return false
		}
	}
	return true
}

// spread gives each row its text, where all had one up to now.
func (s *Stack) spread() {
	if !s.one {
		return
	}
	all := Constant(s.same, s.n).(*array.String)
	s.one, s.n = false, 0
	s.begin()
	if err := s.texts(all); err != nil {
		panic("table: " + err.Error()) // Constant would have
	}
	s.n = all.Len()
}

func (s *Stack) addNulls(n int) {
	if s.nulls == s.n {
		s.nulls += n
		s.n += n
		return
	}
	if s.valid == nil {
		s.valid = slices.Repeat([]bool{true}, s.n)
	}
	s.valid = append(s.valid, make([]bool, n)...)
	s.zeros(n)
	s.n += n
}

// zeros is what lies under nulls.
func (s *Stack) zeros(n int) {
	switch s.typ.ID() {
	case arrow.STRING:
		s.offsets = append(s.offsets, slices.Repeat([]int32{int32(len(s.text))}, n)...)
	case arrow.BOOL:
		s.flags = append(s.flags, make([]bool, n)...)
	default:
		s.fixed = append(s.fixed, make([]byte, 8*n)...)
	}
}

// Append adds the rows of a column of the same type.
func (s *Stack) Append(arr arrow.Array) error {
	n := arr.Len()
	if arr.DataType().ID() != s.typ.ID() {
		return fmt.Errorf("a column of %s below one of %s", TypeName(arr.DataType()), TypeName(s.typ))
	}
	if n == 0 {
		return nil
	}
	if a, ok := arr.(*array.String); ok && (s.one || s.n == 0) && isOne(a) && (s.n == 0 || a.Value(0) == s.same) {
		s.one, s.same = true, strings.Clone(a.Value(0))
		s.n += n
		return nil
	}
	s.spread()
	if arr.NullN() == n {
		s.addNulls(n)
		return nil
	}
	if s.nulls == s.n {
		s.begin()
	}
	if arr.NullN() > 0 && s.valid == nil {
		s.valid = slices.Repeat([]bool{true}, s.n)
	}
	if s.valid != nil {
		for i := range n {
			s.valid = append(s.valid, arr.IsValid(i))
		}
	}
	switch a := arr.(type) {
	case *array.Int64:
		s.fixed = append(s.fixed, arrow.Int64Traits.CastToBytes(a.Int64Values())...)
	case *array.Float64:
		s.fixed = append(s.fixed, arrow.Float64Traits.CastToBytes(a.Float64Values())...)
	case *array.Boolean:
		for i := range n {
			s.flags = append(s.flags, a.Value(i))
		}
	case *array.String:
		if err := s.texts(a); err != nil {
			return err
		}
	default:
		return fmt.Errorf("a column of %s cannot be kept", TypeName(arr.DataType()))
	}
	s.n += n
	return nil
}

// begin makes room, with the rows up to now, of which none had a value.
func (s *Stack) begin() {
	size := max(s.want, s.n)
	switch s.typ.ID() {
	case arrow.STRING:
		s.offsets = append(make([]int32, 0, size+1), 0)
	case arrow.BOOL:
		s.flags = make([]bool, 0, size)
	default:
		s.fixed = make([]byte, 0, 8*size)
	}
	s.nulls = -1
	if s.n > 0 {
		s.valid = make([]bool, s.n, size)
		s.zeros(s.n)
	}
}

func (s *Stack) texts(a *array.String) error {
	data, from := a.ValueBytes(), int32(len(s.text))
	if len(s.text)+len(data) > math.MaxInt32 {
		return fmt.Errorf("%d bytes of text are too many for one column", len(s.text)+len(data))
	}
	if s.text == nil { // the rest is mostly like the first part
		s.text = make([]byte, 0, min(math.MaxInt32, int(float64(len(data))*float64(max(s.want-s.n, a.Len()))/float64(a.Len()))+len(data)/8))
	}
	s.text = append(s.text, data...)
	offsets := a.ValueOffsets()
	for _, at := range offsets[1:] {
		s.offsets = append(s.offsets, from+at-offsets[0])
	}
	return nil
}

// Array is the whole column. The stack must not be used after it.
func (s *Stack) Array() arrow.Array {
	if s.one {
		return Constant(s.same, s.n)
	}
	if s.nulls == s.n {
		return Nulls(s.typ, s.n)
	}
	if s.typ.ID() == arrow.BOOL {
		return Flags(s.flags, s.valid)
	}
	var valid *memory.Buffer
	nulls := 0
	if s.valid != nil {
		bits := Flags(s.valid, nil).(*array.Boolean)
		valid = bits.Data().Buffers()[1]
		for _, ok := range s.valid {
			if !ok {
				nulls++
			}
		}
	}
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(s.fixed)}
	if s.typ.ID() == arrow.STRING {
		buffers = []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(s.offsets)), memory.NewBufferBytes(s.text)}
	}
	return array.MakeFromData(array.NewData(s.typ, s.n, buffers, nil, nulls, 0))
}

// TakeColumn is Take for one column.
func TakeColumn(arr arrow.Array, rows []int) arrow.Array { return takeArray("", arr, rows) }
