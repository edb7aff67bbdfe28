package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"unicode/utf8"

	"aicplan/sink/base/textutil"
)

// MaxLine is the maximum length of a message in bytes. It bounds the memory that a broken
// worker costs.
const MaxLine = 16 << 20

// Environment variables of a worker.
const (
	EnvFDIn  = "AICPLAN_FD_IN"  // file descriptor for reading messages
	EnvFDOut = "AICPLAN_FD_OUT" // file descriptor for writing messages
)

// garbage is an invalid message. The worker that sent it is killed.
type garbage struct{ what string }

func (g *garbage) Error() string { return g.what }

// lineReader reads newline-delimited messages with a bound on their length.
type lineReader struct {
	r   *bufio.Reader
	buf []byte
	max int
	// secrets are removed from every line.
	secrets *textutil.Secrets
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line without its newline, which is valid until the next call. The
// error is a *garbage for a line that is too long, and io.ErrUnexpectedEOF for a last line
// without a newline, whose writer has died.
func (l *lineReader) next() ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(part) > l.max {
			return nil, &garbage{fmt.Sprintf("a message of more than %d bytes", l.max)}
		}

		l.buf = append(l.buf, part...)
		switch {
		case err == nil:
			return l.secrets.Bytes(l.buf[:len(l.buf)-1]), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.buf) > 0:
			return l.buf, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// more reports whether a whole line is buffered.
func (l *lineReader) more() bool {
	waiting, err := l.r.Peek(l.r.Buffered())
	return err == nil && bytes.IndexByte(waiting, '\n') >= 0
}

// envelope has the common fields of messages.
type envelope struct {
	Type string `json:"type"`
	Seq  *int64 `json:"seq"`
}

// openEnvelope checks that a line is one JSON object in UTF-8 with a type.
func openEnvelope(line []byte) (envelope, error) {
	var e envelope
	if !utf8.Valid(line) {
		return e, &garbage{"bytes that are not UTF-8: " + excerpt(line)}
	}

	if err := json.Unmarshal(line, &e); err != nil {
		return e, &garbage{"a line that is not a message: " + excerpt(line)}
	}

	if e.Type == "" {
		return e, &garbage{"a message without a type: " + excerpt(line)}
	}

	return e, nil
}

// decodeMessage decodes a line that openEnvelope has checked. Numbers in fields of type any
// are json.Number, so that integers keep all digits.
func decodeMessage(line []byte, dst any) error {
	if err := textutil.DecodeJSON(line, dst); err != nil {
		return &garbage{fmt.Sprintf("a malformed message (%v): %s", err, excerpt(line))}
	}

	return nil
}

// excerpt quotes the beginning of a line for error messages.
func excerpt(line []byte) string {
	const most = 120
	if len(line) <= most {
		return fmt.Sprintf("%q", line)
	}

	return fmt.Sprintf("%q... (%d bytes)", line[:most], len(line))
}

// encodeLine returns a message and its newline.
func encodeLine(msg any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(msg); err != nil {
		return nil, err
	}

	if b.Len() > MaxLine {
		return nil, fmt.Errorf("a message of %d bytes is longer than the limit of %d", b.Len(), MaxLine)
	}

	return b.Bytes(), nil
}

// finiteRow returns the row with NaN and infinities as strings. It does not change row.
func finiteRow(row Row) Row {
	out, copied := row, false
	for k, v := range row {
		f, _ := v.(float64)
		if x, ok := v.(float32); ok {
			f = float64(x)
		}

		var text string
		switch {
		case math.IsNaN(f):
			text = "NaN"
		case math.IsInf(f, 1):
			text = "Infinity"
		case math.IsInf(f, -1):
			text = "-Infinity"
		default:
			continue
		}

		if !copied {
			out, copied = maps.Clone(row), true
		}
		out[k] = text
	}

	return out
}
