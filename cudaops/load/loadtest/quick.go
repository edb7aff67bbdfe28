package loadtest

import (
	"bufio"
	"bytes"
	"strconv"
)

// quick is the request for tokens whose head lies in the buffer, where it is as
// plain as a measuring client's; anything else is left to net/http. Without it
// the server takes half of a machine on which a client is measured.
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
		case bytes.EqualFold(name, []byte("Transfer-Encoding")), bytes.EqualFold(name, []byte("Expect")), bytes.EqualFold(name, []byte("Connection")):
			return "", false, 0, false
		}
	}
	if length < 0 || length > 64<<20 {
		return "", false, 0, false
	}
	_, _ = r.Discard(end + 4) // it lies in the buffer
	return id, chat, length, true
}
