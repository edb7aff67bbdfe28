// Package sse reads server-sent events as the HTML standard defines them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html): lines end
// with LF, CRLF or CR, an event is dispatched by an empty line, several data
// lines are joined with LF, lines that start with a colon are comments, and a
// byte order mark at the start is skipped. Bytes may arrive split anywhere.
package sse

import (
	"bytes"
	"fmt"
)

// MaxEvent is the most bytes of one event's data; a stream with more is not a
// chat.
const MaxEvent = 16 << 20

// An Event is one dispatched event. Data is valid only during the call.
type Event struct {
	// Type is the event field, empty for "message".
	Type string
	Data []byte
}

// Reader takes the bytes of one stream. The zero value is ready.
type Reader struct {
	line    []byte // an unfinished line
	data    []byte
	typ     string
	hasData bool
	sawCR   bool // the last byte was CR: an LF that follows belongs to it
	begun   bool // the byte order mark has been looked for
	mark    int  // bytes of it that were seen
}

var bom = []byte("\xef\xbb\xbf")

// Reset makes the reader ready for another stream and keeps its memory.
func (r *Reader) Reset() {
	*r = Reader{line: r.line[:0], data: r.data[:0]}
}

// Feed takes the next bytes and calls event for every event that they
// complete, in order. An error of event ends the call.
func (r *Reader) Feed(p []byte, event func(Event) error) error {
	if !r.begun {
		if p = r.skipMark(p); !r.begun {
			return nil
		}
	}
	for len(p) > 0 {
		if r.sawCR {
			r.sawCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		i := lineEnd(p)
		if i < 0 {
			if len(r.line)+len(p) > MaxEvent {
				return fmt.Errorf("a line of the event stream is longer than %d MiB", MaxEvent>>20)
			}
			r.line = append(r.line, p...)
			return nil
		}
		line := p[:i]
		if len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		r.sawCR = p[i] == '\r'
		p = p[i+1:]
		if err := r.take(line, event); err != nil {
			return err
		}
		r.line = r.line[:0]
	}
	return nil
}

// End is called when the stream has ended. The standard drops an event that no
// empty line closed; servers whose last event ends with the connection are
// common, so a data line that is complete in itself is dispatched.
func (r *Reader) End(event func(Event) error) error {
	if !r.begun && r.mark > 0 {
		r.line, r.begun = append(r.line, bom[:r.mark]...), true
	}
	if len(r.line) > 0 {
		line := r.line
		r.line = nil
		if err := r.take(line, event); err != nil {
			return err
		}
	}
	return r.dispatch(event)
}

func (r *Reader) skipMark(p []byte) []byte {
	for len(p) > 0 && r.mark < len(bom) && p[0] == bom[r.mark] {
		r.mark++
		p = p[1:]
	}
	if r.mark == len(bom) {
		r.begun = true
	} else if len(p) > 0 {
		r.line, r.begun = append(r.line, bom[:r.mark]...), true
	}
	return p
}

// lineEnd finds the first LF or CR.
func lineEnd(p []byte) int {
	i := bytes.IndexByte(p, '\n')
	head := p
	if i >= 0 {
		head = p[:i]
	}
	if j := bytes.IndexByte(head, '\r'); j >= 0 {
		return j
	}
	return i
}

func (r *Reader) take(line []byte, event func(Event) error) error {
	if len(line) == 0 {
		return r.dispatch(event)
	}
	name, value, found := bytes.Cut(line, []byte(":"))
	if found && len(name) == 0 {
		return nil // a comment
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if len(r.data)+len(value) > MaxEvent {
			return fmt.Errorf("an event of the stream is longer than %d MiB", MaxEvent>>20)
		}
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
		r.hasData = true
	case "event":
		r.typ = string(value)
	}
	return nil
}

func (r *Reader) dispatch(event func(Event) error) error {
	if !r.hasData {
		r.typ = ""
		return nil
	}
	e := Event{Type: r.typ, Data: r.data}
	r.hasData, r.typ = false, ""
	err := event(e)
	r.data = r.data[:0]
	return err
}
