package worker

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Nearly all messages are cases, starts and results. They are written and read
// here by hand, in the one form in which this package writes them; a message in
// any other form goes the general way, which also has the errors.

// appendCase writes a case as encodeLine does; false leaves it to that.
func appendCase(b []byte, c *Case) ([]byte, bool) {
	b = strconv.AppendInt(append(b, `{"type":"case","seq":`...), c.Seq, 10)
	var ok bool
	if b, ok = appendPlain(append(b, `,"id":`...), c.ID); !ok {
		return nil, false
	}
	if b, ok = appendPlain(append(b, `,"op":`...), c.Op); !ok {
		return nil, false
	}
	if b, ok = appendCompact(append(b, `,"params":`...), c.Params); !ok {
		return nil, false
	}
	if len(c.Sweep) > 0 {
		if b, ok = appendCompact(append(b, `,"sweep":`...), c.Sweep); !ok {
			return nil, false
		}
	}
	if c.Attempt != 0 {
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(c.Attempt), 10)
	}
	b = append(b, "}\n"...)
	return b, len(b) <= MaxLine
}

func appendCompact(b []byte, raw []byte) ([]byte, bool) {
	buf := bytes.NewBuffer(b)
	if err := json.Compact(buf, raw); err != nil {
		return nil, false
	}
	return buf.Bytes(), true
}

// appendPlain writes a text that needs no escapes.
func appendPlain(b []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return nil, false
		}
	}
	return append(append(append(b, '"'), s...), '"'), true
}

// appendResult writes a result without attachments as encodeLine does; false
// leaves it to that.
func appendResult(b []byte, seq int64, rows []Row, seconds float64) ([]byte, bool) {
	b = strconv.AppendInt(append(b, `{"type":"result","seq":`...), seq, 10)
	b = append(b, `,"rows":[`...)
	var ok bool
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		var space [24]string
		names := space[:0]
		for name := range row {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, '{')
		for k, name := range names {
			if k > 0 {
				b = append(b, ',')
			}
			if b, ok = appendPlain(b, name); !ok {
				return nil, false
			}
			if b, ok = appendScalar(append(b, ':'), row[name]); !ok {
				return nil, false
			}
		}
		b = append(b, '}')
	}
	if b, ok = appendFloat(append(b, `],"seconds":`...), seconds); !ok {
		return nil, false
	}
	b = append(b, "}\n"...)
	return b, len(b) <= MaxLine
}

func appendScalar(b []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), true
	case bool:
		return strconv.AppendBool(b, v), true
	case string:
		return appendPlain(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10), true
	case int64:
		return strconv.AppendInt(b, v, 10), true
	case float64:
		return appendFloat(b, v)
	case json.Number:
		return append(b, v...), isNumber(string(v))
	}
	return nil, false
}

// appendFloat writes a number as encoding/json does.
func appendFloat(b []byte, f float64) ([]byte, bool) {
	abs := math.Abs(f)
	if !(abs <= math.MaxFloat64) || abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return nil, false // no finite number, or one with an exponent
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64), true
}

// parseCase reads a case in the form of appendCase.
func parseCase(line []byte) (*Case, bool) {
	s := scanner{b: string(line)}
	c := &Case{Type: TypeCase}
	var ok bool
	if !s.word(`{"type":"case","seq":`) {
		return nil, false
	}
	if c.Seq, ok = s.integer(); !ok || !s.word(`,"id":`) {
		return nil, false
	}
	if c.ID, ok = s.text(); !ok || !s.word(`,"op":`) {
		return nil, false
	}
	if c.Op, ok = s.text(); !ok || !s.word(`,"params":`) {
		return nil, false
	}
	if c.Params, ok = s.raw(); !ok {
		return nil, false
	}
	if s.word(`,"sweep":`) {
		if c.Sweep, ok = s.raw(); !ok {
			return nil, false
		}
	}
	if s.word(`,"attempt":`) {
		n, ok := s.integer()
		if !ok {
			return nil, false
		}
		c.Attempt = int(n)
	}
	return c, s.word(`}`) && s.i == len(s.b) && utf8.Valid(line)
}

// words keeps the names of columns and short texts that come again and again, so
// that rows share them.
type words map[string]string

// maxWords bounds what a worker can make the engine keep.
const maxWords = 4096

func (w words) of(s string) string {
	if t, ok := w[s]; ok {
		return t
	}
	if w != nil && len(w) < maxWords && len(s) <= 64 {
		t := string([]byte(s)) // not the whole line
		w[t] = t
		return t
	}
	return s
}

// parseRows reads a result in the form of appendResult, with or without spaces
// behind colons and commas, as Python writes it.
func parseRows(line []byte, known words) (*CaseResult, bool) {
	if !utf8.Valid(line) {
		return nil, false
	}
	s := scanner{b: string(line)}
	r := &CaseResult{Type: TypeResult}
	if !s.word(`{`) || !s.name("type") || !s.word(`"result"`) || !s.comma() || !s.name("seq") {
		return nil, false
	}
	var ok bool
	if r.Seq, ok = s.integer(); !ok || !s.comma() || !s.name("rows") || !s.word(`[`) {
		return nil, false
	}
	r.Rows = make([]Row, 0, 1)
	for !s.word(`]`) {
		if len(r.Rows) == maxRows || len(r.Rows) > 0 && !s.comma() {
			return nil, false
		}
		row, ok := s.row(known)
		if !ok {
			return nil, false
		}
		r.Rows = append(r.Rows, row)
	}
	if s.comma() {
		if !s.name("seconds") {
			return nil, false
		}
		text, ok := s.number()
		if !ok {
			return nil, false
		}
		var err error
		if r.Seconds, err = strconv.ParseFloat(text, 64); err != nil || !plausible(r.Seconds) {
			return nil, false
		}
	}
	return r, s.word(`}`) && s.i == len(s.b)
}

// scanner reads JSON without escapes.
type scanner struct {
	b string
	i int
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || s.b[s.i:s.i+len(w)] != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) space() {
	if s.i < len(s.b) && s.b[s.i] == ' ' {
		s.i++
	}
}

func (s *scanner) comma() bool {
	ok := s.word(`,`)
	s.space()
	return ok
}

// name reads a member's name and its colon.
func (s *scanner) name(want string) bool {
	got, ok := s.text()
	if !ok || got != want || !s.word(`:`) {
		return false
	}
	s.space()
	return true
}

// text reads a string without escapes.
func (s *scanner) text() (string, bool) {
	if !s.word(`"`) {
		return "", false
	}
	for at := s.i; at < len(s.b); at++ {
		switch c := s.b[at]; {
		case c == '"':
			t := s.b[s.i:at]
			s.i = at + 1
			return t, true
		case c == '\\' || c < 0x20:
			return "", false
		}
	}
	return "", false
}

// integer reads an integer as AppendInt writes it.
func (s *scanner) integer() (int64, bool) {
	text, ok := s.number()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// number reads a number as JSON has it.
func (s *scanner) number() (string, bool) {
	from := s.i
	for s.i < len(s.b) {
		if c := s.b[s.i]; c < '0' || c > '9' {
			if c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
				break
			}
		}
		s.i++
	}
	return s.b[from:s.i], isNumber(s.b[from:s.i])
}

// isNumber says whether a text is a number of JSON.
func isNumber(t string) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(t) && t[i] >= '0' && t[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(t) && t[i] == '-' {
		i++
	}
	zero := i < len(t) && t[i] == '0'
	from := i
	if !digits() || zero && i > from+1 {
		return false
	}
	if i < len(t) && t[i] == '.' {
		if i++; !digits() {
			return false
		}
	}
	if i < len(t) && (t[i] == 'e' || t[i] == 'E') {
		if i++; i < len(t) && (t[i] == '+' || t[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(t)
}

// row reads an object of scalars.
func (s *scanner) row(known words) (Row, bool) {
	if !s.word(`{`) {
		return nil, false
	}
	row := make(Row, 8)
	if s.word(`}`) {
		return row, true
	}
	for {
		name, ok := s.text()
		if !ok || !s.word(`:`) {
			return nil, false
		}
		s.space()
		name = known.of(name)
		_, twice := row[name]
		switch {
		case twice || len(row) == maxNames || s.i >= len(s.b):
			return nil, false
		case s.b[s.i] == '"':
			t, ok := s.text()
			if !ok {
				return nil, false
			}
			row[name] = known.of(t)
		case s.word("true"):
			row[name] = true
		case s.word("false"):
			row[name] = false
		case s.word("null"):
			row[name] = nil
		default:
			t, ok := s.number()
			if !ok {
				return nil, false
			}
			row[name] = json.Number(t)
		}
		if s.word(`}`) {
			return row, true
		}
		if !s.comma() {
			return nil, false
		}
	}
}

// raw takes one JSON object or list whole; what is in it is for its reader to
// judge.
func (s *scanner) raw() (json.RawMessage, bool) {
	from, depth := s.i, 0
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return json.RawMessage(s.b[from:s.i]), true
			}
			if depth < 0 {
				return nil, false
			}
		case '"':
			for s.i++; s.i < len(s.b) && s.b[s.i] != '"'; s.i++ {
				if s.b[s.i] == '\\' {
					s.i++
				}
			}
		default:
			if depth == 0 {
				return nil, false
			}
		}
	}
	return nil, false
}

// DecodeParams reads the parameters of a case: text, json.Number, bool or nil by
// name.
func DecodeParams(raw json.RawMessage) (map[string]any, error) {
	s := scanner{b: string(raw)}
	if row, ok := s.row(nil); ok && s.i == len(s.b) && utf8.ValidString(s.b) {
		return row, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	err := d.Decode(&out)
	return out, err
}
