package collect

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// read adds the rows of an entry in the format of encode without decoding it. If the entry uses any
// other JSON, read adds nothing and returns false, and the caller decodes the entry in full.
// decodes that in full.
func (s *rowStore) read(payload []byte) (first, n int, ok bool) {
	first = s.n
	sc := scanner{b: payload}
	var tail entryTail
	// The values that all rows share follow the rows, so scan the whole entry before adding rows.
	rows, from, ok := tail.look(&sc)
	if !ok {
		return 0, 0, false
	}

	sc.i = from

	for range rows {
		sc.object(s.scanned)
		sc.word(`,`)
		s.end(tail.attempts, tail.worker, tail.uuid, tail.at, nil)
	}

	return first, rows, true
}

// look scans an entry to its end and returns the number of rows and the offset of the first one.
func (t *entryTail) look(sc *scanner) (rows, from int, ok bool) {
	if !sc.word(`{"rows":[`) {
		return 0, 0, false
	}

	from = sc.i
	for {
		if !sc.object(nil) {
			return 0, 0, false
		}
		rows++
		if !sc.word(`,`) {
			break
		}
	}

	return rows, from, sc.word(`]`) && t.read(sc)
}

// scanned sets a value of the row that is being added.
func (s *rowStore) scanned(name []byte, tag byte, v []byte) {
	if tag == nothing {
		return
	}

	c := s.column(name)
	if !c.metric {
		var other any
		switch tag {
		case aNumber:
			other = json.Number(string(v))
		case aWord:
			other = string(v)
		default:
			other = tag == aTrue
		}

		s.set(string(name), other)
		return
	}

	switch tag {
	case aNumber:
		if f, err := strconv.ParseFloat(string(v), 64); err == nil {
			c.tag(s.n, aNumber)
			c.floats = grown(c.floats, s.n)
			c.floats[s.n] = f
		}
	case aWord:
		s.setWord(c, v)
	default:
		s.setFlag(c, tag == aTrue)
	}
}

// entryTail contains the values that all rows of an entry share.
type entryTail struct {
	attempts         int
	worker, uuid, at []byte
}

// read scans the part of an entry after its rows.
func (t *entryTail) read(sc *scanner) bool {
	good := true
	for sc.word(`,`) {
		name, ok := sc.text()
		if !ok || !sc.word(`:`) {
			return false
		}

		tag, v, ok := sc.value()
		if !ok {
			return false // a label, or a field of a later version
		}

		switch string(name) {
		case "attempts":
			n, err := strconv.Atoi(string(v))
			good = good && tag == aNumber && err == nil
			t.attempts = n

		case "worker":
			t.worker, good = v, good && tag == aWord

		case "device_uuid":
			t.uuid, good = v, good && tag == aWord

		case "at":
			t.at, good = v, good && tag == aWord

		case "seconds":
			_, err := strconv.ParseFloat(string(v), 64)
			good = good && tag == aNumber && err == nil

		case "points":
			_, err := strconv.Atoi(string(v))
			good = good && tag == aNumber && err == nil

		case "first":
			good = good && (tag == aFlag || tag == aTrue)

		default:
			return false
		}
	}

	return good && sc.word(`}`) && sc.i == len(sc.b)
}

// scanner reads JSON without whitespace and without nested values.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// object scans an object and calls take, if not nil, for every member.
func (s *scanner) object(take func(name []byte, tag byte, value []byte)) bool {
	if !s.word(`{`) {
		return false
	}

	for {
		name, ok := s.text()
		if !ok || !s.word(`:`) {
			return false
		}

		tag, v, ok := s.value()
		if !ok {
			return false
		}

		if take != nil {
			take(name, tag, v)
		}
		if s.word(`}`) {
			return true
		}
		if !s.word(`,`) {
			return false
		}
	}
}

// text scans a string without escapes and returns its content.
func (s *scanner) text() ([]byte, bool) {
	if !s.word(`"`) {
		return nil, false
	}

	from, ascii := s.i, true
	for i := from; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			t := s.b[from:i]
			return t, ascii || utf8.Valid(t)
		case c == '\\':
			return nil, false
		case c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}

	return nil, false
}

func (s *scanner) value() (tag byte, v []byte, ok bool) {
	switch {
	case s.i >= len(s.b):
		return 0, nil, false

	case s.b[s.i] == '"':
		v, ok = s.text()
		return aWord, v, ok

	case s.word("true"):
		return aTrue, nil, true

	case s.word("false"):
		return aFlag, nil, true

	case s.word("null"):
		return nothing, nil, true
	}

	from := s.i
	ok = s.number()
	return aNumber, s.b[from:s.i], ok
}

// number scans a JSON number. It rejects 007, 1. and +1.
func (s *scanner) number() bool {
	s.word(`-`)
	if !s.word(`0`) && !s.digits() {
		return false
	}
	if s.word(`.`) && !s.digits() {
		return false
	}

	if s.word(`e`) || s.word(`E`) {
		_ = s.word(`+`) || s.word(`-`)
		return s.digits()
	}

	return true
}

// digits scans one or more digits.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}
