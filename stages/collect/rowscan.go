package collect

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// read takes the rows of an entry as encode writes it, without building it. It is
// false, and nothing is added, for everything else that JSON allows; the caller
// decodes that in full.
func (s *rowStore) read(payload []byte) (first, n int, ok bool) {
	first = s.n
	sc := scanner{b: payload}
	var tail entryTail
	rows := 0
	// The rows come before what they share, so their end is not known yet: first
	// look, then take.
	if !sc.word(`{"rows":[`) {
		return 0, 0, false
	}
	from := sc.i
	for {
		if !sc.object(func([]byte, byte, []byte) {}) {
			return 0, 0, false
		}
		rows++
		if !sc.word(`,`) {
			break
		}
	}
	if !sc.word(`]`) || !tail.read(&sc) {
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

// scanned gives the row that is being added one value.
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

// entryTail is what the rows of an entry share.
type entryTail struct {
	attempts         int
	worker, uuid, at []byte
}

// read takes the rest of an entry behind its rows.
func (t *entryTail) read(sc *scanner) bool {
	good := true
	for sc.word(`,`) {
		name, ok := sc.text()
		if !ok || !sc.word(`:`) {
			return false
		}
		tag, v, ok := sc.value()
		if !ok {
			return false // a label, or what a later aicplan keeps
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
		}
	}
	return good && sc.word(`}`) && sc.i == len(sc.b)
}

// scanner reads JSON without spaces, escapes and nesting.
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

// object calls take for every member of an object.
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
		take(name, tag, v)
		if s.word(`}`) {
			return true
		}
		if !s.word(`,`) {
			return false
		}
	}
}

// text reads a string without escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.word(`"`) {
		return nil, false
	}
	end := bytes.IndexByte(s.b[s.i:], '"')
	if end < 0 {
		return nil, false
	}
	t := s.b[s.i : s.i+end]
	if bytes.IndexByte(t, '\\') >= 0 || !utf8.Valid(t) {
		return nil, false
	}
	s.i += end + 1
	return t, true
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
	for s.i < len(s.b) && (s.b[s.i] >= '0' && s.b[s.i] <= '9' || s.b[s.i] == '-' || s.b[s.i] == '+' || s.b[s.i] == '.' || s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
	}
	return aNumber, s.b[from:s.i], s.i > from
}
