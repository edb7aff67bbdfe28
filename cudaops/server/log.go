package server

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

const (
	// headBytes and tailBytes limit how much of a section is kept.
	headBytes = 256 << 10
	tailBytes = 512 << 10
)

// Log captures the output of a server. It forwards everything to another writer and keeps the beginning and
// the end of the current section. Its memory is bounded independent of the amount of output. It is safe for
// concurrent use.
type Log struct {
	to io.Writer // nil discards

	mu    sync.Mutex
	text  []byte // of the section: its beginning, and at least the last tailBytes of the rest
	total int64  // bytes in the section
}

// NewLog returns a log that forwards to a writer, which may be nil. Errors of the writer are ignored,
// because a full disk must not stop the server.
func NewLog(to io.Writer) *Log { return &Log{to: to} }

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	if l.to != nil {
		_, _ = l.to.Write(b) // see NewLog
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.total += int64(len(b))
	if l.text = append(l.text, b...); len(l.text) > headBytes+2*tailBytes {
		l.text = slices.Delete(l.text, headBytes, len(l.text)-tailBytes)
	}

	return len(b), nil
}

// Section starts a new section.
func (l *Log) Section() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text, l.total = l.text[:0], 0
}

// Text returns the beginning and the end of the section, with a note about omitted bytes between them.
func (l *Log) Text() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.total - headBytes - tailBytes
	if gone <= 0 {
		return bytes.Clone(l.text)
	}

	out := fmt.Appendf(bytes.Clone(l.text[:headBytes]), "\n... %d bytes left out ...\n", gone)
	return append(out, l.text[len(l.text)-tailBytes:]...)
}

// Last returns the last 15 lines of the section, each truncated to 400 bytes.
func (l *Log) Last() string {
	const most = 400
	text := strings.TrimRight(string(l.Text()), "\n")
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-15):]

	for i, line := range lines {
		if len(line) > most {
			lines[i] = strings.ToValidUTF8(line[:most], "") + "..."
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
