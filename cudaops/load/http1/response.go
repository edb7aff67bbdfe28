// Package http1 is a small HTTP/1.1 client for measuring: one connection per
// caller, every read stamped as it returns, no goroutine and no allocation of
// its own per response. It speaks what inference servers answer with (RFC 9112):
// bodies by Content-Length, chunked with extensions and trailers, or ended by
// the connection, and interim 1xx responses. It follows no redirects, keeps no
// cookies and decodes no content encodings.
package http1

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"aicplan/sink/phrase"
)

// Limits of what a response may have.
const (
	maxHead  = 64 << 10
	maxChunk = 1 << 30
)

// Errors of broken responses.
var (
	// ErrTruncated is a connection that ended inside a response.
	ErrTruncated = errors.New("the connection ended inside the response")
	// ErrNoResponse is a connection that ended before the first byte of it.
	ErrNoResponse = errors.New("the server closed the connection without a response")
	// ErrUnread is a connection that the server had closed before the request
	// came: nobody read it, and it may be sent again on another one. Servers close
	// idle connections, and some do so after every answer, without a word.
	ErrUnread = errors.New("the server had closed the connection before the request came")
	// ErrHTTP2 is a server without HTTP/1.1.
	ErrHTTP2 = errors.New("the server answers in HTTP/2, which is not spoken here; put a proxy that speaks HTTP/1.1 before it")
)

type state uint8

const (
	inHead state = iota
	inLength
	inChunkSize
	inChunkData
	inChunkEnd
	inTrailer
	inUntilEOF
	done
)

// Head is what of a response's head matters.
type Head struct {
	Status      int
	Reason      string
	ContentType string
	// RetryAfter, Location and Encoding are empty where the response has none.
	RetryAfter, Location, Encoding string
}

// A parser takes the bytes of one response.
type parser struct {
	state  state
	line   []byte // unfinished head, chunk size or trailer line
	left   int64  // of the body or chunk
	close  bool   // the connection is of no use afterwards
	begun  bool
	head   Head
	noBody bool // of this request's method
}

func (p *parser) reset() {
	*p = parser{line: p.line[:0]}
}

// feed takes bytes and gives parts of the body to emit. It returns how many
// bytes it took: fewer than len(b) only when the response is complete.
func (p *parser) feed(b []byte, emit func([]byte) error) (n int, err error) {
	all := len(b)
	for len(b) > 0 && p.state != done {
		p.begun = true
		switch p.state {
		case inHead:
			used, complete, err := p.takeHead(b)
			if err != nil {
				return all - len(b), err
			}
			b = b[used:]
			if !complete {
				return all, nil
			}
			if err := p.parseHead(); err != nil {
				return all - len(b), err
			}
			p.line = p.line[:0]
		case inLength, inChunkData:
			part := b
			if int64(len(part)) > p.left {
				part = part[:p.left]
			}
			p.left -= int64(len(part))
			b = b[len(part):]
			if p.left == 0 {
				if p.state == inLength {
					p.state = done
				} else {
					p.state = inChunkEnd
				}
			}
			if err := emit(part); err != nil {
				return all - len(b), err
			}
		case inUntilEOF:
			part := b
			b = nil
			if err := emit(part); err != nil {
				return all, err
			}
		default:
			line, rest, ok, err := p.takeLine(b)
			b = rest
			if err != nil {
				return all - len(b), err
			}
			if !ok {
				return all, nil
			}
			if err := p.control(line); err != nil {
				return all - len(b), err
			}
			p.line = p.line[:0]
		}
	}
	return all - len(b), nil
}

// end says that the connection ended.
func (p *parser) end() error {
	switch {
	case p.state == done:
		return nil
	case p.state == inUntilEOF:
		p.state = done
		return nil
	case !p.begun:
		return ErrNoResponse
	}
	return ErrTruncated
}

// takeHead collects bytes up to the empty line.
func (p *parser) takeHead(b []byte) (used int, complete bool, err error) {
	had := len(p.line)
	p.line = append(p.line, b...)
	// What cannot become a head is not waited for: its sender may wait too.
	if err := p.strange(); err != nil {
		return 0, false, err
	}
	from := max(0, had-3)
	for i := from; i < len(p.line); {
		j := bytes.IndexByte(p.line[i:], '\n')
		if j < 0 {
			break
		}
		j += i
		next := j + 1
		if next < len(p.line) && p.line[next] == '\r' {
			next++
		}
		if next < len(p.line) && p.line[next] == '\n' {
			end := next + 1
			p.line = p.line[:end]
			return end - had, true, nil
		}
		i = j + 1
	}
	if len(p.line) > maxHead {
		return 0, false, fmt.Errorf("the response's head is longer than %d KiB", maxHead>>10)
	}
	return len(b), false, nil
}

// Of HTTP/2: a frame has nine bytes before its content, the fourth is its type,
// and a server's first frame holds its settings.
const (
	frameHead     = 9
	frameType     = 3
	frameSettings = 4
)

// strange says that what came so far begins no response of HTTP/1.
func (p *parser) strange() error {
	begin := bytes.TrimLeft(p.line, "\r\n")
	if len(begin) == 0 || begin[0] == 'H' {
		return nil
	}
	if begin[0] == 0 && len(begin) < frameHead {
		return nil
	}
	if begin[0] == 0 && begin[frameType] == frameSettings {
		return ErrHTTP2
	}
	return notHTTP1(begin)
}

func notHTTP1(begin []byte) error {
	return fmt.Errorf("the server does not answer with HTTP/1.1: %q", phrase.Clip(string(begin), 80))
}

// takeLine collects bytes up to LF and returns the line without its end.
func (p *parser) takeLine(b []byte) (line, rest []byte, ok bool, err error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		p.line = append(p.line, b...)
		if len(p.line) > maxHead {
			return nil, nil, false, errors.New("a chunk's size line is too long")
		}
		return nil, nil, false, nil
	}
	line = b[:i]
	if len(p.line) > 0 {
		p.line = append(p.line, line...)
		line = p.line
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, b[i+1:], true, nil
}

// control reads a line between chunks.
func (p *parser) control(line []byte) error {
	switch p.state {
	case inChunkSize:
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 63)
		if err != nil || n > maxChunk {
			return fmt.Errorf("a chunk's size is %q", phrase.Clip(string(line), 80))
		}
		p.left, p.state = int64(n), inChunkData
		if n == 0 {
			p.state = inTrailer
		}
	case inChunkEnd:
		if len(line) > 0 {
			return fmt.Errorf("a chunk is followed by %q instead of a line end", phrase.Clip(string(line), 80))
		}
		p.state = inChunkSize
	case inTrailer:
		if len(line) == 0 {
			p.state = done
		}
	}
	return nil
}

var (
	crlf   = []byte("\n")
	spaces = " \t\r"
)

// parseHead reads the status line and the fields that matter.
func (p *parser) parseHead() error {
	text := bytes.TrimLeft(p.line, "\r\n") // some servers send an empty line first
	first, rest, _ := bytes.Cut(text, crlf)
	first = bytes.TrimRight(first, spaces)
	if len(first) < 12 || !bytes.HasPrefix(first, []byte("HTTP/1.")) || first[8] != ' ' {
		return notHTTP1(first)
	}
	status, err := strconv.Atoi(string(first[9:12]))
	if err != nil || status < 100 || status > 999 || (len(first) > 12 && first[12] != ' ') {
		return fmt.Errorf("the status line is %q", phrase.Clip(string(first), 80))
	}
	h := Head{Status: status}
	if len(first) > 13 {
		h.Reason = string(first[13:])
	}
	p.close = first[7] == '0'
	length, chunked := int64(-1), false
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, crlf)
		line = bytes.TrimRight(line, spaces)
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || name[len(name)-1] == ' ' {
			return fmt.Errorf("a header line is %q", phrase.Clip(string(line), 80))
		}
		value = bytes.Trim(value, spaces)
		switch {
		case is(name, "content-length"):
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n < 0 || value[0] == '+' || (length >= 0 && n != length) {
				return fmt.Errorf("Content-Length is %q", phrase.Clip(string(value), 80))
			}
			length = n
		case is(name, "transfer-encoding"):
			if !bytes.EqualFold(value, []byte("chunked")) {
				return fmt.Errorf("Transfer-Encoding %q is not known here", phrase.Clip(string(value), 80))
			}
			chunked = true
		case is(name, "connection"):
			for word := range bytes.SplitSeq(value, []byte(",")) {
				word = bytes.Trim(word, spaces)
				if bytes.EqualFold(word, []byte("close")) {
					p.close = true
				} else if bytes.EqualFold(word, []byte("keep-alive")) && first[7] == '0' {
					p.close = false
				}
			}
		case is(name, "content-type"):
			h.ContentType = string(value)
		case is(name, "content-encoding"):
			h.Encoding = string(value)
		case is(name, "retry-after"):
			h.RetryAfter = string(value)
		case is(name, "location"):
			h.Location = string(value)
		}
	}
	if status < 200 {
		if status == 101 {
			return errors.New("the server switched protocols (101)")
		}
		return nil // another head follows
	}
	p.head = h
	switch {
	case p.noBody || status == 204 || status == 304:
		p.state = done
	case chunked:
		// Both at once is smuggling to a proxy; the standard lets chunked win and
		// has the connection closed.
		p.close = p.close || length >= 0
		p.state = inChunkSize
	case length == 0:
		p.state = done
	case length > 0:
		p.state, p.left = inLength, length
	default:
		p.state, p.left, p.close = inUntilEOF, math.MaxInt64, true
	}
	return nil
}

// is compares a header name with a lower-case word.
func is(name []byte, word string) bool {
	if len(name) != len(word) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}
