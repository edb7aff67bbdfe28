package perf

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
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
// is null; a quoted empty one is the empty string. Lines inside of fields end in "\n". Every row must have as many
// fields as the header. Errors are *CSVError.
func ReadCSV(data []byte, types Types) (arrow.Record, error) {
	f := &csvFile{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}
	f.bom = len(data) - len(f.data)
	if err := f.foreign(); err != nil {
		return nil, err
	}
	if err := f.read(); err != nil {
		return nil, err
	}

	if last := len(f.data) - 1; f.data[last] != '\n' {
		return nil, f.errorAt(last, "the file does not end with a newline: its last row may have been cut; "+
			"fetch it again, or add the newline if the row is complete")
	}

	cols := make([]arrow.Array, len(f.header))
	for i, name := range f.header {
		var err error
		if cols[i], err = f.column(i, types[name]); err != nil {
			return nil, err
		}
	}
	return table.NewRecord(f.header, cols), nil
}

// csvFile is a CSV file with the texts of its fields.
type csvFile struct {
	data    []byte
	bom     int // length of the byte order mark before data
	lines   []int
	header  []string
	columns []csvColumn
}

// csvColumn has the texts of a column. valid is nil if no field is null.
type csvColumn struct {
	texts []string
	valid []bool
}

// foreign detects files of other formats.
func (s *csvFile) foreign() error {
	switch {
	case len(bytes.TrimSpace(s.data)) == 0:
		return &CSVError{Line: 1, Column: 1, Msg: "the file is empty; a header is needed"}
	case bytes.HasPrefix(s.data, lfsPointer):
		return &CSVError{Line: 1, Column: 1, Msg: lfsHint}
	case bytes.HasPrefix(s.data, []byte("PAR1")):
		return &CSVError{Line: 1, Column: 1, Msg: "this is a Parquet file, not CSV"}
	}

	if i := bytes.IndexByte(s.data, 0); i >= 0 {
		return s.errorAt(i, "a NUL byte: this is not CSV text in UTF-8")
	}
	if i := textutil.NotUTF8(s.data); i >= 0 {
		return s.errorAt(i, fmt.Sprintf("the byte 0x%02x is no UTF-8; save the file as UTF-8", s.data[i]))
	}

	return nil
}

// read reads the header and all fields.
func (f *csvFile) read() error {
	return f.records(func(r *csv.Reader, row int, fields []string) error {
		if row < 0 {
			f.header, f.columns = slices.Clone(fields), make([]csvColumn, len(fields))
			most := min(bytes.Count(f.data, []byte("\n")), len(f.data)/len(fields)) // a field takes a byte or more
			for i := range f.columns {
				f.columns[i].texts = make([]string, 0, most)
			}
			return f.checkHeader(r)
		}

		for i, text := range fields {
			if strings.Contains(text, "\r\n") {
				return f.fieldError(r, i, "a line inside a field ends in several carriage returns")
			}

			c := &f.columns[i]
			null := text == "" && !f.quoted(r, i)
			if null && c.valid == nil {
				c.valid = slices.Repeat([]bool{true}, row)
			}
			if c.texts = append(c.texts, text); c.valid != nil {
				c.valid = append(c.valid, !null)
			}
		}
		return nil
	})
}

// records calls visit with every record: the header has the row -1.
func (f *csvFile) records(visit func(r *csv.Reader, row int, fields []string) error) error {
	r := csv.NewReader(bytes.NewReader(f.data))
	r.ReuseRecord = true
	width := 0
	for row := -1; ; row++ {
		fields, err := r.Read()
		if pe := (*csv.ParseError)(nil); errors.As(err, &pe) {
			switch {
			case errors.Is(err, csv.ErrFieldCount):
				return f.fieldError(r, 0, fmt.Sprintf("this row has %d fields, the header has %d", len(fields), width))
			case errors.Is(err, csv.ErrQuote):
				return f.place(pe.Line, pe.Column, "a quoted field does not end in a quote before the comma or the end of the "+
					"line; a quote inside it is written twice")
			}
			return f.place(pe.Line, pe.Column, "a quote inside a field that does not begin with one")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &CSVError{Line: 1, Column: 1, Msg: err.Error()}
		}

		width = len(fields)
		if err := visit(r, row, fields); err != nil {
			return err
		}
	}
}

// quoted reports whether a field of the current record has quotes around it.
func (f *csvFile) quoted(r *csv.Reader, i int) bool {
	if f.lines == nil {
		f.lines = []int{0}
		for at, c := range f.data {
			if c == '\n' {
				f.lines = append(f.lines, at+1)
			}
		}
	}

	line, column := r.FieldPos(i)
	at := f.lines[line-1] + column - 1
	return at < len(f.data) && f.data[at] == '"'
}

func (f *csvFile) checkHeader(r *csv.Reader) error {
	if len(f.header) == 1 {
		for sep, word := range map[string]string{";": "semicolons", "\t": "tabs"} {
			if strings.Contains(f.header[0], sep) {
				return f.fieldError(r, 0, fmt.Sprintf("the fields are separated by %s, and commas are needed", word))
			}
		}
	}

	for i, name := range f.header {
		switch trimmed := strings.TrimSpace(name); {
		case trimmed == "":
			return f.fieldError(r, i, "a column without a name")
		case trimmed != name:
			// Other readers would not find the name without them.
			return f.fieldError(r, i, fmt.Sprintf("the column %q has spaces around its name; remove them", name))
		case slices.Contains(f.header[:i], name):
			return f.fieldError(r, i, fmt.Sprintf("two columns are called %q", name))
		}
	}

	if n := len(f.header); n > maxColumns {
		return f.fieldError(r, 0, tooWide(n).Error())
	}
	return nil
}

// fieldError returns an error at a field of the current record.
func (f *csvFile) fieldError(r *csv.Reader, i int, msg string) error {
	line, column := r.FieldPos(i)
	return f.place(line, column, msg)
}

// errorAt returns an error at a byte of the data.
func (f *csvFile) errorAt(pos int, msg string) error {
	before := f.data[:pos]
	return f.place(1+bytes.Count(before, []byte("\n")), pos-bytes.LastIndexByte(before, '\n'), msg)
}

func (f *csvFile) place(line, column int, msg string) error {
	if line == 1 {
		column += f.bom
	}
	return &CSVError{Line: line, Column: column, Msg: msg}
}

// column converts column i to want, or to the narrowest type that takes all of its fields if want is nil.
func (f *csvFile) column(i int, want arrow.DataType) (arrow.Array, error) {
	c := f.columns[i]
	if want != nil {
		arr, bad := c.as(want)
		if bad < 0 {
			return arr, nil
		}

		kinds := map[arrow.Type]string{arrow.INT64: "an integer", arrow.FLOAT64: "a number", arrow.BOOL: "true or false"}
		return nil, f.records(func(r *csv.Reader, row int, fields []string) error {
			if row < bad {
				return nil
			}
			return f.fieldError(r, i, fmt.Sprintf("%q in column %q is not %s", fields[i], f.header[i], kinds[want.ID()]))
		})
	}

	for _, t := range []arrow.DataType{table.Int64, table.Float64, table.Bool} {
		if arr, bad := c.as(t); bad < 0 && arr.NullN() < arr.Len() {
			return arr, nil
		}
	}
	arr, _ := c.as(table.String)
	return arr, nil
}

// as converts a column. bad is the first row whose field does not fit, or -1.
func (c csvColumn) as(t arrow.DataType) (arr arrow.Array, bad int) {
	switch t.ID() {
	case arrow.INT64:
		return convert(c, integer, table.Ints)
	case arrow.FLOAT64:
		return convert(c, float, table.Floats)
	case arrow.BOOL:
		return convert(c, boolean, table.Flags)
	}
	return table.Texts(c.texts, c.valid), -1
}

func convert[T any](c csvColumn, parse func(string) (T, bool), array func([]T, []bool) arrow.Array) (arrow.Array, int) {
	values := make([]T, len(c.texts))
	for i, text := range c.texts {
		if c.valid != nil && !c.valid[i] {
			continue
		}

		var ok bool
		if values[i], ok = parse(text); !ok {
			return nil, i
		}
	}
	return array(values, c.valid), -1
}

// integer parses an integer without a plus and without needless zeros.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && !padded(s) && s != "-0"
}

// float parses a decimal number without a plus and without needless zeros, and NaN and infinities in their usual
// spellings.
func float(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !strings.ContainsAny(s, "xX_") && (!padded(s) || strings.EqualFold(s, "+inf"))
}

// padded reports whether a number has a plus or needless zeros.
func padded(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return strings.HasPrefix(s, "+") || len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'
}

func boolean(s string) (value, ok bool) {
	switch s {
	case "true", "True":
		return true, true
	case "false", "False":
		return false, true
	}
	return false, false
}
