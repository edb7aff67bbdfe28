package loadtest

import (
	"bufio"
	"bytes"
	"strconv"
)

// quick parses the header of a generation request if it is completely buffered and as simple as that of a
// load generator. Otherwise it returns false and consumes nothing, and net/http parses the request. Without
// quick, the server would use half of the CPU of a machine that also runs the client.
func quick(r *bufio.Reader) (id string, chat bool, length int, ok bool) {
	if _, err := r.Peek(1); err != nil {
		return "", false, 0, false
	}

	b, err := r.Peek(r.Buffered())
	if err != nil {
		return "", false, 0, false
	}

	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return "", false, 0, false
	}

	line, rest, _ := bytes.Cut(b[:end], []byte("\r\n"))
	switch string(line) {
	case "POST /v1/chat/completions HTTP/1.1":
		chat = true
	case "POST /v1/completions HTTP/1.1":
	default:
		return "", false, 0, false
	}

	length = -1
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", false, 0, false
			}
		case bytes.EqualFold(name, []byte("X-Request-ID")):
			id = string(value)
		case bytes.EqualFold(name, []byte("Transfer-Encoding")), bytes.EqualFold(name, []byte("Expect")),
			bytes.EqualFold(name, []byte("Connection")):
			return "", false, 0, false
		}
	}

	if length < 0 || length > 64<<20 {
		return "", false, 0, false
	}

	_, _ = r.Discard(end + 4) // cannot fail, the bytes are buffered
	return id, chat, length, true
}
