package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A link is the connection of a slot to a target. It sends one request at a time, with net/http's parser for responses.
// Compared with http.Transport, it has no goroutines of its own, which halves the processor time of a request.
type link struct {
	to   *target
	conn net.Conn
	in   *bufio.Reader // of stamps
	used time.Time     // end of the last response
}

// stamps are the times of one request on the runner's clock in ns. A field is 0 if the event did not happen.
type stamps struct {
	connected, sent, first int64
	last                   int64 // end of the last read of the response
	reads                  int
	bytes                  int64
	reused                 bool

	conn net.Conn
	now  func() int64
	head int // remaining bytes that the head of the response may have

	mu    sync.Mutex
	cause error // why the request was interrupted
	ended bool
}

// maxHead limits the head of a response, in bytes.
const maxHead = 1 << 20

// Read reads from the connection and stamps each read that returned data.
func (x *stamps) Read(b []byte) (int, error) {
	n, err := x.conn.Read(b)
	if n > 0 {
		x.last = x.now()
		if x.first == 0 {
			x.first = x.last
		}
		x.reads++
		x.bytes += int64(n)

		if x.head -= n; x.head < 0 {
			return 0, fmt.Errorf("the head of the response is longer than %d KiB", maxHead>>10)
		}
	}
	return n, err
}

// interrupt makes the request fail with a cause, unless it has ended.
func (x *stamps) interrupt(cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended && x.cause == nil {
		x.cause = cause
		if x.conn != nil {
			_ = x.conn.SetDeadline(time.Unix(1, 0)) // a closed connection fails as well
		}
	}
}

// end marks the end of the request, and returns the cause of an interrupt.
func (x *stamps) end() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	return x.cause
}

// open connects to a target, or reuses the connection if the server has not closed it.
func (l *link) open(ctx context.Context, r *runner, to *target, x *stamps) error {
	if l.conn != nil && (l.to != to || time.Since(l.used) > time.Millisecond && closed(l.conn)) {
		l.close()
	}

	x.reused = l.conn != nil
	if l.conn == nil {
		var c net.Conn
		select {
		case c = <-to.ready: // opened before the run
		default:
			var err error
			if c, err = r.dial(ctx, to); err != nil {
				return err
			}
		}
		l.conn, l.to = c, to
	}

	x.mu.Lock()
	x.conn = l.conn
	cause := x.cause
	x.mu.Unlock()
	if l.in == nil {
		l.in = bufio.NewReaderSize(x, 16<<10)
	}
	l.in.Reset(x)
	x.connected = x.now()
	return cause
}

// roundTrip sends a request and reads the head of its response.
// If giveUp is set, it interrupts the request when it was sent.
func (l *link) roundTrip(head, body []byte, deadline time.Time, x *stamps, giveUp bool) (*http.Response, error) {
	x.mu.Lock()
	if x.cause == nil {
		_ = l.conn.SetDeadline(deadline) // a closed connection fails when it is used
	}
	x.mu.Unlock()

	buffers := net.Buffers{head, body}
	_, werr := buffers.WriteTo(l.conn)
	x.sent = x.now()
	if giveUp {
		x.interrupt(errGivenUp)
	}

	for range 10 {
		x.head = maxHead
		res, err := http.ReadResponse(l.in, posted)
		switch {
		case err != nil && x.first == 0 && werr != nil:
			return nil, werr
		case err != nil && x.first == 0 && errors.Is(err, io.ErrUnexpectedEOF):
			return nil, io.EOF
		case err != nil:
			return nil, err
		case res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols:
			x.head = 1 << 62
			return res, nil
		}
	}
	return nil, errors.New("the server sends interim responses only")
}

// posted is the request whose responses are parsed.
var posted = &http.Request{Method: http.MethodPost}

// done keeps the connection for the next request, or closes it.
func (l *link) done(keep bool) {
	if keep {
		l.used = time.Now()
	} else {
		l.close()
	}
}

func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.Close() // the request has ended
		l.conn = nil
	}
}

// closed reports whether the server has closed an idle connection.
func closed(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}

	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}

	gone := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && !errors.Is(err, syscall.EAGAIN)
		return true
	})
	return gone || err != nil
}

// requestHead returns the part of the head that all requests to a target have in common.
func (r *runner) requestHead(to *target) []byte {
	path := to.url.RequestURI()
	if to.proxy != nil && to.url.Scheme == "http" {
		path = to.url.String()
	}

	var b bytes.Buffer
	host := r.header.Get("Host")
	if host == "" {
		host = to.url.Host
	}
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		if name != "Host" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, r.header.Get(name))
		}
	}
	if to.proxy != nil && to.url.Scheme == "http" {
		b.WriteString(proxyAuth(to.proxy))
	}
	return b.Bytes()
}

// appendHead appends the head of a request.
func appendHead(b []byte, to *target, id, correlation string, length int) []byte {
	b = append(b, to.head...)
	b = append(b, "X-Request-Id: "...)
	b = append(b, id...)
	b = append(b, "\r\nX-Correlation-Id: "...)
	b = append(b, correlation...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	return append(b, "\r\n\r\n"...)
}

// explain returns the error of a request: the cause of an interrupt, or a timeout.
func explain(err, cause error) error {
	switch {
	case err == nil:
		return nil
	case cause != nil:
		return cause
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	}
	return err
}
