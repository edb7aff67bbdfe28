package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent limits the data of one event, in bytes.
const MaxEvent = 16 << 20

// An Event is one dispatched event. Data is valid only during the callback.
type Event struct {
	// Type is the event field, empty for "message".
	Type string
	Data []byte
}

// Source is what events are read from.
type Source interface {
	// Next returns bytes that were read and not discarded, after a read if there are none. They are valid until the next
	// call of a method.
	Next() ([]byte, error)

	// Discard discards the first n bytes of those that Next returned.
	Discard(n int) (int, error)
}

// Buffer is a Source.
type Buffer struct{ *bufio.Reader }

// Next implements Source.
func (b Buffer) Next() ([]byte, error) {
	if _, err := b.Peek(1); err != nil {
		return nil, err
	}
	return b.Peek(b.Buffered())
}

// EventReader parses server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). Lines end with LF, CRLF or CR, an empty line
// dispatches an event, several data lines are joined with LF, and lines that start with a colon are comments. A byte
// order mark before the first line is ignored. It parses streams one after the other. The zero value is ready to use.
type EventReader struct {
	// Other has the lines of the stream that are no field of an event, up to MaxOther bytes. Some servers and proxies
	// send an error page as a stream.
	Other []byte

	line, data []byte
	typ        string
	hasData    bool
}

// MaxOther limits EventReader.Other.
const MaxOther = 2 << 10

// Read calls event for every event of the stream, in order, until in ends. A last event without an empty
// line after it is dispatched too. Read returns the first error of in or event, and nil at EOF.
func (r *EventReader) Read(in Source, event func(Event) error) error {
	r.line, r.data, r.typ, r.hasData, r.Other = r.line[:0], r.data[:0], "", false, r.Other[:0]
	mark := []byte("\ufeff")
	afterCR := false
	for {
		data, err := in.Next()
		if errors.Is(err, io.EOF) {
			if err := r.take(r.line, event); err != nil {
				return err
			}
			return r.dispatch(event)
		}
		if err != nil {
			return err
		}

		if afterCR && data[0] == '\n' {
			afterCR = false
			_, _ = in.Discard(1) // it is buffered
			continue
		}

		if len(r.line) == 0 && !r.hasData && r.typ == "" {
			n, err := plainEvents(data, event)
			if err != nil {
				return err
			}
			if n > 0 {
				mark, afterCR = nil, false
				_, _ = in.Discard(n)
				continue
			}
		}

		n := lineEnd(data)
		if len(r.line)+n > MaxEvent {
			return fmt.Errorf("a line of the event stream is longer than %d MiB", MaxEvent>>20)
		}

		line := data[:n]
		if len(r.line) > 0 || n == len(data) {
			r.line = append(r.line, line...)
			line = r.line
		}

		if n == len(data) {
			_, _ = in.Discard(n)
			continue
		}

		if mark != nil {
			line, mark = bytes.TrimPrefix(line, mark), nil
		}

		afterCR = data[n] == '\r'
		if err := r.take(line, event); err != nil {
			return err
		}

		_, _ = in.Discard(n + 1)
		r.line = r.line[:0]
	}
}

// plainEvents calls event for the events at the start of data that have the form of nearly all: a data line that ends
// with LF, and an empty line. They are not copied. It returns the number of bytes of these events.
func plainEvents(data []byte, event func(Event) error) (int, error) {
	used := 0
	for {
		rest, ok := bytes.CutPrefix(data[used:], []byte("data: "))
		n := bytes.IndexByte(rest, '\n')
		if !ok || n < 0 || n+1 == len(rest) || rest[n+1] != '\n' || bytes.IndexByte(rest[:n], '\r') >= 0 {
			return used, nil
		}

		used = len(data) - len(rest) + n + 2
		if err := event(Event{Data: rest[:n]}); err != nil {
			return used, err
		}
	}
}

// lineEnd returns the index of the first CR or LF, or the length of data if there is none.
func lineEnd(data []byte) int {
	n := bytes.IndexByte(data, '\n')
	if n < 0 {
		n = len(data)
	}
	if cr := bytes.IndexByte(data[:n], '\r'); cr >= 0 {
		return cr
	}
	return n
}

func (r *EventReader) take(line []byte, event func(Event) error) error {
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
	case "id", "retry":
	default:
		r.Other = append(r.Other, line[:min(len(line), MaxOther-len(r.Other))]...)
		if len(r.Other) < MaxOther {
			r.Other = append(r.Other, '\n')
		}
	}

	return nil
}

func (r *EventReader) dispatch(event func(Event) error) error {
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
