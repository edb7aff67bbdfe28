package perf

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// CSVError describes a mistake in a CSV file. Line and Column, in bytes, start at 1.
type CSVError struct {
	Path         string // "" when the data came from elsewhere
	Line, Column int
	Msg          string
}

func (e *CSVError) Error() string {
	at := fmt.Sprintf("line %d, column %d", e.Line, e.Column)
	if e.Path != "" {
		at = e.Path + ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}

	return at + ": " + e.Msg
}

// Types are the declared types of columns, by name. A column without one is
// inferred: int64 when every field is an integer, else float64 when every
// field is a number, else bool, else string. Numbers with needless leading
// zeros or a plus are text. Declare what must stay text whatever it looks
// like, a version such as "1.10" above all.
type Types map[string]arrow.DataType

// Texts declares columns as strings.
func Texts(names ...string) Types {
	t := Types{}
	for _, n := range names {
		t[n] = table.String
	}

	return t
}

// ReadCSV reads CSV with a header: RFC 4180 with lines that end in "\n" or
// "\r\n", also the last one, blank lines skipped, and a byte order mark allowed. An empty field
// is null; a quoted empty one is the empty string. Every row must have as many
// fields as the header. Errors are *CSVError.
func ReadCSV(data []byte, types Types) (arrow.Record, error) {
	s := &splitter{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}
	s.bom = len(data) - len(s.data)
	if err := s.foreign(); err != nil {
		return nil, err
	}
	if err := s.split(); err != nil {
		return nil, err
	}
	if last := len(s.data) - 1; s.data[last] != '\n' {
		return nil, s.errorAt(last, "the file does not end with a newline: its last row may have been cut; "+
			"fetch it again, or add the newline if the row is complete")
	}
	names := make([]string, len(s.header))
	cols := make([]arrow.Array, len(s.header))
	for i, name := range s.header {
		arr, err := s.column(i, types[name])
		if err != nil {
			return nil, err
		}
		names[i], cols[i] = name, arr
	}

	return table.NewRecord(names, cols), nil
}

// field is a range of the data. quoted means that quotes surround it, escaped that it contains doubled quotes.
type field struct {
	start, end uint32
	quoted     bool
	escaped    bool
}

type splitter struct {
	data   []byte
	bom    int
	header []string
	fields []field // row by row
}

// foreign detects files of other formats.
func (s *splitter) foreign() error {
	switch {
	case len(s.data) > math.MaxUint32:
		return &CSVError{Line: 1, Column: 1, Msg: "the file is larger than 4 GiB"}
	case len(bytes.TrimSpace(s.data)) == 0:
		return &CSVError{Line: 1, Column: 1, Msg: "the file is empty; a header is needed"}
	case bytes.HasPrefix(s.data, lfsPointer):
		return &CSVError{Line: 1, Column: 1, Msg: lfsHint}
	case bytes.HasPrefix(s.data, []byte("PAR1")):
		return &CSVError{Line: 1, Column: 1, Msg: "this is a Parquet file, not CSV"}
	}

	if bytes.HasPrefix(s.data, []byte("\xff\xfe")) || bytes.HasPrefix(s.data, []byte("\xfe\xff")) {
		return &CSVError{Line: 1, Column: 1, Msg: "this is UTF-16; save the file as UTF-8"}
	}
	if i := bytes.IndexByte(s.data, 0); i >= 0 {
		return s.errorAt(i, "a NUL byte: this is not CSV text in UTF-8")
	}
	if i := notUTF8(s.data); i >= 0 {
		return s.errorAt(i, fmt.Sprintf("the byte 0x%02x is no UTF-8; save the file as UTF-8", s.data[i]))
	}

	return nil
}

// notUTF8 is the place of the first byte that belongs to no character, or -1.
func notUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}

	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}

	return -1
}

func (s *splitter) split() error {
	pos := 0
	width := 0
	row := make([]field, 0, 32)
	for pos < len(s.data) {
		begin := pos
		var err error
		row, pos, err = s.line(row[:0], pos)
		if err != nil {
			return err
		}
		if len(row) == 1 && row[0].start == row[0].end && !row[0].quoted && width != 1 {
			continue // a blank line; with one column it is a null
		}
		if width == 0 {
			if err := s.setHeader(row); err != nil {
				return err
			}
			width = len(row)
			s.fields = make([]field, 0, width*(1+bytes.Count(s.data[pos:], []byte("\n"))))
			continue
		}

		if len(row) != width {
			return s.errorAt(begin, fmt.Sprintf("this row has %d fields, the header has %d", len(row), width))
		}
		s.fields = append(s.fields, row...)
	}

	return nil
}

// line reads the fields of one record and returns the start of the next one.
func (s *splitter) line(row []field, pos int) ([]field, int, error) {
	data := s.data
	for {
		if pos < len(data) && data[pos] == '"' {
			f := field{start: uint32(pos + 1), quoted: true}
			open := pos
			pos++
			for {
				i := bytes.IndexByte(data[pos:], '"')
				if i < 0 {
					return nil, 0, s.errorAt(open, "this quote is never closed")
				}
				pos += i + 1
				if pos >= len(data) || data[pos] != '"' {
					break
				}
				f.escaped = true
				pos++
			}
			f.end = uint32(pos - 1)
			row = append(row, f)
			if pos < len(data) && data[pos] == '\r' && (pos+1 == len(data) || data[pos+1] == '\n') {
				pos++
			}
			if pos < len(data) && data[pos] != ',' && data[pos] != '\n' {
				return nil, 0, s.errorAt(pos, "text after a closing quote; a quote inside a quoted field is written twice")
			}
		} else {
			start := pos
			for pos < len(data) && data[pos] != ',' && data[pos] != '\n' {
				if data[pos] == '"' {
					return nil, 0, s.errorAt(pos, "a quote inside a field that does not begin with one")
				}
				pos++
			}
			end := pos
			if end > start && data[end-1] == '\r' && (pos == len(data) || data[pos] == '\n') {
				end--
			}
			row = append(row, field{start: uint32(start), end: uint32(end)})
		}

		if pos >= len(data) {
			return row, pos, nil
		}
		pos++
		if data[pos-1] == '\n' {
			return row, pos, nil
		}
	}
}

func (s *splitter) setHeader(row []field) error {
	if len(row) == 1 {
		for sep, word := range map[string]string{";": "semicolons", "\t": "tabs"} {
			if strings.Contains(s.text(row[0]), sep) {
				return s.errorAt(int(row[0].start), fmt.Sprintf("the fields are separated by %s, and commas are needed", word))
			}
		}
	}

	seen := map[string]bool{}
	for _, f := range row {
		name := s.text(f)
		switch trimmed := strings.TrimSpace(name); {
		case trimmed == "":
			return s.errorAt(int(f.start), "a column without a name")
		case trimmed != name:
			// Other readers would not find the name without them.
			return s.errorAt(int(f.start), fmt.Sprintf("the column %q has spaces around its name; remove them", name))
		case seen[name]:
			return s.errorAt(int(f.start), fmt.Sprintf("two columns are called %q", name))
		}

		seen[name] = true
		s.header = append(s.header, name)
	}

	if n := len(s.header); n > maxColumns {
		return s.errorAt(int(row[0].start), tooWide(n).Error())
	}

	return nil
}

func (s *splitter) raw(f field) []byte { return s.data[f.start:f.end] }

func (s *splitter) null(f field) bool { return f.start == f.end && !f.quoted }

func (s *splitter) text(f field) string {
	if f.escaped {
		return strings.ReplaceAll(string(s.raw(f)), `""`, `"`)
	}

	return string(s.raw(f))
}

func (s *splitter) errorAt(pos int, msg string) *CSVError {
	before := s.data[:pos]
	line := 1 + bytes.Count(before, []byte("\n"))
	col := pos - (bytes.LastIndexByte(before, '\n') + 1) + 1
	if line == 1 {
		col += s.bom
	}

	return &CSVError{Line: line, Column: col, Msg: msg}
}
