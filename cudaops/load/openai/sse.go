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

// EventReader parses server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). Lines end with LF or CRLF, an empty line
// dispatches an event, several data lines are joined with LF, and lines that start with a colon are comments.
// It parses streams one after the other. The zero value is ready to use.
type EventReader struct {
	line, data []byte
	typ        string
	hasData    bool
}

// Read calls event for every event of the stream, in order, until in ends. A last event without an empty
// line after it is dispatched too. Read returns the first error of in or event, and nil at EOF.
func (r *EventReader) Read(in *bufio.Reader, event func(Event) error) error {
	r.line, r.data, r.typ, r.hasData = r.line[:0], r.data[:0], "", false
	for {
		part, err := in.ReadSlice('\n')
		if len(r.line)+len(part) > MaxEvent {
			return fmt.Errorf("a line of the event stream is longer than %d MiB", MaxEvent>>20)
		}

		if errors.Is(err, bufio.ErrBufferFull) {
			r.line = append(r.line, part...)
			continue
		}

		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		line := part
		if len(r.line) > 0 {
			r.line = append(r.line, part...)
			line = r.line
		}

		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if terr := r.take(line, event); terr != nil {
			return terr
		}

		r.line = r.line[:0]
		if err != nil {
			return r.dispatch(event)
		}
	}
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
