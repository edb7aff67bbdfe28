package perf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// column converts column i to want, or to the narrowest type that takes all
// its fields when want is nil.
func (s *splitter) column(i int, want arrow.DataType) (arrow.Array, error) {
	if want != nil {
		arr, bad := s.as(i, want)
		if bad >= 0 {
			f := s.fields[bad]
			return nil, s.errorAt(int(f.start), fmt.Sprintf("%q in column %q is not %s", s.text(f), s.header[i], article(want)))
		}

		return arr, nil
	}

	for _, t := range []arrow.DataType{table.Int64, table.Float64, table.Bool} {
		if arr, bad := s.as(i, t); bad < 0 && arr.NullN() < arr.Len() {
			return arr, nil
		}
	}

	arr, _ := s.as(i, table.String)
	return arr, nil
}

func article(t arrow.DataType) string {
	switch t.ID() {
	case arrow.INT64:
		return "an integer"
	case arrow.FLOAT64:
		return "a number"
	case arrow.BOOL:
		return "true or false"
	}

	return "a string"
}

// as converts a column, or returns the index of the first field that does not
// fit.
func (s *splitter) as(i int, t arrow.DataType) (arrow.Array, int) {
	switch t.ID() {
	case arrow.INT64:
		values, valid, bad := convert(s, i, s.integer)
		if bad >= 0 {
			return nil, bad
		}

		return table.Ints(values, valid), -1
	case arrow.FLOAT64:
		values, valid, bad := convert(s, i, s.number)
		if bad >= 0 {
			return nil, bad
		}

		return table.Floats(values, valid), -1
	case arrow.BOOL:
		values, valid, bad := convert(s, i, s.flag)
		if bad >= 0 {
			return nil, bad
		}

		return table.Flags(values, valid), -1
	case arrow.STRING:
		var last string // repeats are the rule: share them
		values, valid, _ := convert(s, i, func(f field) (string, bool) {
			if raw := s.raw(f); f.escaped || string(raw) != last {
				last = s.text(f)
			}
			return last, true
		})
		return table.Texts(values, valid), -1
	}

	panic(fmt.Sprintf("perf: column %q is declared as %s", s.header[i], t))
}

func convert[T any](s *splitter, i int, parse func(field) (T, bool)) (values []T, valid []bool, bad int) {
	width := len(s.header)
	rows := len(s.fields) / width
	values = make([]T, rows)
	for row := range rows {
		f := s.fields[row*width+i]
		if s.null(f) {
			if valid == nil {
				valid = make([]bool, rows)
				for k := range row {
					valid[k] = true
				}
			}
			continue
		}

		v, ok := parse(f)
		if !ok {
			return nil, nil, row*width + i
		}
		values[row] = v
		if valid != nil {
			valid[row] = true
		}
	}

	return values, valid, -1
}

func (s *splitter) integer(f field) (int64, bool) {
	b := s.raw(f)
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || (b[0] == '0' && len(b) > 1) {
		return 0, false
	}
	n := uint64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}

	switch {
	case negative && n <= 1<<63:
		return -int64(n), n != 0
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}

	return 0, false
}

// number parses a JSON number, also without digits before or after the point, and NaN and
// infinities in their usual spellings.
func (s *splitter) number(f field) (float64, bool) {
	b := s.raw(f)
	rest := b
	if len(rest) > 0 && rest[0] == '-' {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return 0, false
	}
	if c := rest[0]; (c < '0' || c > '9') && c != '.' {
		return special(string(b))
	}
	if len(rest) > 1 && rest[0] == '0' && rest[1] >= '0' && rest[1] <= '9' {
		return 0, false
	}

	for _, c := range rest {
		if (c < '0' || c > '9') && c != '.' && c != 'e' && c != 'E' && c != '-' && c != '+' {
			return 0, false
		}
	}

	v, err := strconv.ParseFloat(unsafe.String(&b[0], len(b)), 64) // b outlives the call
	return v, err == nil
}

func special(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case "nan":
		return math.NaN(), true
	case "inf", "+inf", "infinity":
		return math.Inf(1), true
	case "-inf", "-infinity":
		return math.Inf(-1), true
	}

	return 0, false
}

func (s *splitter) flag(f field) (bool, bool) {
	switch string(s.raw(f)) {
	case "true", "True":
		return true, true
	case "false", "False":
		return false, true
	}

	return false, false
}
