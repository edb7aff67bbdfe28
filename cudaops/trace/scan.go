package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxValue limits the size of one JSON value, because a value is buffered as a whole. Events have a few
// hundred bytes. The largest values in practice are lists of process groups of a few megabytes.
const maxValue = 64 << 20

// maxDepth limits the nesting of arrays and objects.
const maxDepth = 512

var (
	errShort  = errors.New("value goes on beyond the buffer")
	errSyntax = errors.New("not JSON")
)

// scanner splits a stream into JSON values.
type scanner struct {
	r    io.Reader
	buf  []byte // unread bytes are buf[pos:]
	pos  int
	base int64 // offset of buf[0] in the stream
	eof  bool
	err  error // read error other than io.EOF
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, 0, 1<<20)}
}

// offset returns the position of the next unread byte in the uncompressed stream.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

// fill reads more data. It returns false at the end of the stream.
func (s *scanner) fill() bool {
	if s.eof {
		return false
	}

	if s.pos > 0 {
		n := copy(s.buf, s.buf[s.pos:])
		s.buf, s.base, s.pos = s.buf[:n], s.base+int64(s.pos), 0
	}

	if len(s.buf) == cap(s.buf) {
		grown := make([]byte, len(s.buf), 2*cap(s.buf))
		copy(grown, s.buf)
		s.buf = grown
	}

	for {
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if err != nil {
			s.eof = true
			if err != io.EOF {
				s.err = err
			}
		}
		if n > 0 || s.eof {
			return n > 0
		}
	}
}

// token returns the next byte that is not white space without consuming it, or 0 at the end.
func (s *scanner) token() byte {
	for {
		for s.pos < len(s.buf) {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\n', '\r':
				s.pos++
			default:
				return c
			}
		}
		if !s.fill() {
			return 0
		}
	}
}

// value consumes the next value and returns its bytes, which are valid until the next call.
func (s *scanner) value() ([]byte, error) {
	if s.token() == 0 {
		return nil, errShort
	}

	for {
		end, err := skip(s.buf, s.pos)
		if err == errShort {
			if len(s.buf)-s.pos >= maxValue {
				return nil, fmt.Errorf("a value of more than %d MiB at byte %d", maxValue>>20, s.offset())
			}
			if s.fill() {
				continue
			}
			// A number at the end of the stream is complete.
			if end, err = skip(append(s.buf[:len(s.buf):len(s.buf)], ' '), s.pos); err != nil || end > len(s.buf) {
				return nil, errShort
			}
		}

		if err != nil {
			return nil, err
		}

		b := s.buf[s.pos:end]
		s.pos = end
		return b, nil
	}
}

// rest reads to the end of the stream. It returns the number of bytes that are not leading white space, and
// the read error if any.
func (s *scanner) rest() (int64, error) {
	var n int64
	for s.token() != 0 || !s.eof {
		n += int64(len(s.buf) - s.pos)
		s.pos = len(s.buf)
	}
	return n, s.err
}

// skip returns the index after the JSON value that starts at b[i]. It only checks that brackets and quotes
// match. It returns errShort if b ends inside the value.
func skip(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, errShort
	}

	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	case '}', ']', ',', ':':
		return i, errSyntax
	}

	for j := i; j < len(b); j++ {
		switch b[j] {
		case ',', '}', ']', ' ', '\n', '\t', '\r', ':':
			return j, nil
		case '"', '{', '[':
			return i, errSyntax
		}
	}

	return i, errShort
}

func skipString(b []byte, i int) (int, error) {
	for j := i + 1; ; {
		// For most strings a loop is faster than a call of IndexByte.
		for n := min(j+12, len(b)); j < n && b[j] != '"'; {
			j++
		}

		if j == len(b) {
			return i, errShort
		}

		if b[j] != '"' {
			k := bytes.IndexByte(b[j:], '"')
			if k < 0 {
				return i, errShort
			}
			j += k
		}

		// A quote after an odd number of backslashes does not end the string.
		n := 0
		for b[j-1-n] == '\\' {
			n++
		}

		j++
		if n%2 == 0 {
			return j, nil
		}
	}
}

// structural marks the bytes that matter inside nested values.
var structural = [256]bool{'"': true, '{': true, '}': true, '[': true, ']': true}

func skipNested(b []byte, i int) (int, error) {
	var shallow [16]byte // events have a depth of three
	open, depth := shallow[:], 0

	for j := i; j < len(b); j++ {
		c := b[j]
		if !structural[c] {
			continue
		}

		switch c {
		case '"':
			end, err := skipString(b, j)
			if err != nil {
				return i, err
			}
			j = end - 1

		case '{', '[':
			if depth == maxDepth {
				return i, errSyntax
			}
			if depth == len(open) {
				open = append(open, make([]byte, len(open))...)
			}
			open[depth] = c + 2 // '{'+2 is '}', '['+2 is ']'
			depth++

		case '}', ']':
			depth--
			if open[depth] != c {
				return i, errSyntax
			}
			if depth == 0 {
				return j + 1, nil
			}
		}
	}

	return i, errShort
}

// members calls f for each member of the object obj, whose brackets must match. Keys are passed without
// quotes and without resolving escapes. If f returns false, members stops.
func members(obj []byte, f func(key, value []byte) bool) error {
	i := space(obj, 1)
	for i < len(obj) && obj[i] != '}' {
		if obj[i] != '"' {
			return errSyntax
		}

		end, err := skipString(obj, i)
		if err != nil {
			return errSyntax
		}

		key := obj[i+1 : end-1]
		if i = space(obj, end); i >= len(obj) || obj[i] != ':' {
			return errSyntax
		}

		i = space(obj, i+1)
		if end, err = skip(obj, i); err != nil {
			return errSyntax
		}

		if !f(key, obj[i:end]) {
			return nil
		}

		if i = space(obj, end); i < len(obj) && obj[i] == ',' {
			i = space(obj, i+1)
		} else if i >= len(obj) || obj[i] != '}' {
			return errSyntax
		}
	}

	return nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
