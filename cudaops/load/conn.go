package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/arrival"
	"aicplan/cudaops/load/openai"
)

// A link is the connection of a slot to a target. It sends one request at a time, with net/http's parser for responses.
// Compared with http.Transport, it has no goroutines of its own, which halves the processor time of a request.
type link struct {
	to   *target
	conn net.Conn
	tcp  arrival.Clock // nil if the arrival of data is unknown
	in   *bufio.Reader // of the link itself, which stamps reads
	now  func() int64
	used int64 // end of the last response

	content io.ReadCloser // body of the current response
	chunks  chunkedBody   // content, if it has chunks

	rec      *aiperf.Record // of the current or last request, whose events are stamped
	left     int            // remaining bytes that the head of the response may have
	draining bool           // the response is complete, and only the end of its body is missing
	hurried  bool           // a read waits at most drainTime for that end

	mu     sync.Mutex
	number int             // of the current or last request
	busy   bool            // the current request has not ended
	cause  error           // why the request was interrupted
	ctx    context.Context // of the current or last request
}

// maxHead limits the head of a response, in bytes.
const maxHead = 1 << 20

// begin starts a request that is recorded in rec. It returns an error if ctx is done.
func (l *link) begin(ctx context.Context, rec *aiperf.Record) error {
	rec.Start = l.now()
	l.rec, l.left, l.draining, l.hurried = rec, maxHead, false, false
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	l.ctx, l.busy, l.cause = ctx, true, ctx.Err()
	return l.cause
}

// Read reads from the connection and stamps each read that returned data.
func (l *link) Read(b []byte) (int, error) {
	if l.draining && !l.hurried {
		l.hurry()
	}

	n, err := l.conn.Read(b)
	if n > 0 {
		l.stamp()
		l.rec.Reads++
		l.rec.BytesIn += int64(n)

		if l.left -= n; l.left < 0 {
			return 0, fmt.Errorf("the head of the response is longer than %d KiB", maxHead>>10)
		}
	}
	return n, err
}

// stamp sets the time of a read: when the kernel received the data, or now if that is unknown or the machine's clock
// was set during the run.
func (l *link) stamp() {
	at := l.now()
	if l.tcp != nil {
		if t := l.tcp.Arrived(); t >= max(l.rec.Start, l.rec.Last) && t < at {
			at = t
		}
	}

	l.rec.Last = at
	if l.rec.Ack == 0 {
		l.rec.Ack = at
	}
}

// cancel makes the current request fail if ctx is its context. The function that a context calls may run late, when a
// request of the next phase has begun.
func (l *link) cancel(ctx context.Context) {
	l.mu.Lock()
	number := l.number
	current := l.ctx == ctx
	l.mu.Unlock()
	if current {
		l.interrupt(number, context.Canceled)
	}
}

// interrupt makes a request fail with a cause, unless it has ended. Number 0 is the current request.
func (l *link) interrupt(number int, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy && l.cause == nil && (number == 0 || number == l.number) {
		l.cause = cause
		if l.conn != nil {
			_ = l.conn.SetDeadline(time.Unix(1, 0)) // a closed connection fails as well
		}
	}
}

// hurry limits how long a read waits for the end of the body after the response is complete.
func (l *link) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hurried = true; l.cause == nil {
		_ = l.conn.SetReadDeadline(time.Now().Add(drainTime)) // a closed connection fails when it is read
	}
}

// end marks the end of the request, and returns the cause of an interrupt.
func (l *link) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	return l.cause
}

// open connects to a target, or reuses the connection if the server has not closed it.
func (l *link) open(ctx context.Context, r *runner, to *target, deadline time.Time) error {
	if l.conn != nil && (l.to != to || l.rec.Start-l.used > int64(time.Millisecond) && arrival.Closed(l.conn)) {
		l.close()
	}

	if l.rec.Reused = l.conn != nil; !l.rec.Reused {
		var c net.Conn
		select {
		case c = <-to.ready: // opened before the run
		default:
			ctx, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			var err error
			if c, err = r.dial(ctx, to); err != nil {
				return err
			}
		}

		l.mu.Lock()
		l.conn, l.to, l.tcp = c, to, arrival.Of(c)
		l.mu.Unlock()
	}

	l.in.Reset(l)
	if !l.rec.Reused {
		l.rec.Connect = l.now() - l.rec.Start
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		_ = l.conn.SetDeadline(deadline) // a closed connection fails when it is used
	}
	return l.cause
}

// roundTrip sends a request and reads the head of its response. If giveUp is set, it interrupts the request when it
// was sent.
func (l *link) roundTrip(body []byte, giveUp bool) (*responseHead, error) {
	out := heads.Get().(*[]byte)
	*out = appendHead((*out)[:0], l.to, l.rec.ID, l.rec.Correlation, len(body))
	var werr error
	if len(body) <= maxCopied {
		*out = append(*out, body...)
		_, werr = l.conn.Write(*out)
	} else {
		buffers := net.Buffers{*out, body}
		_, werr = buffers.WriteTo(l.conn)
	}

	l.rec.Sent = l.now()
	heads.Put(out)
	if giveUp {
		l.interrupt(0, errGivenUp)
	}

	for range 10 {
		l.left = maxHead
		head, err := l.readHead()
		switch {
		case err != nil && l.rec.Ack == 0 && werr != nil:
			return nil, werr
		case err != nil && l.rec.Ack == 0 && errors.Is(err, io.ErrUnexpectedEOF):
			return nil, io.EOF
		case err != nil:
			return nil, err
		case head.StatusCode >= 200 || head.StatusCode == http.StatusSwitchingProtocols:
			l.left = math.MaxInt
			return head, nil
		}
	}
	return nil, errors.New("the server sends interim responses only")
}

// readHead reads the head of a response. Servers usually send the same head again, and then it is not parsed again.
func (l *link) readHead() (*responseHead, error) {
	if _, err := l.in.Peek(1); err != nil {
		return nil, err
	}

	data, err := l.in.Peek(l.in.Buffered())
	if err != nil {
		return nil, err
	}

	l.chunks = chunkedBody{in: l.in}
	l.content = &l.chunks
	if k := l.to.known.Load(); k != nil && bytes.HasPrefix(data, k.text) {
		_, err := l.in.Discard(len(k.text))
		return k, err
	}

	reads := l.rec.Reads
	res, err := http.ReadResponse(l.in, posted)
	if err != nil {
		return nil, err
	}

	head := &responseHead{Response: res, encoding: strings.ToLower(res.Header.Get("Content-Encoding"))}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	head.kind = strings.ToLower(strings.TrimSpace(kind))
	content := res.Body
	res.Body = nil
	switch {
	case len(res.TransferEncoding) == 0 || content == http.NoBody:
		l.content = content
	case l.rec.Reads == reads: // data is the buffer as it was
		head.text = bytes.Clone(data[:len(data)-l.in.Buffered()])
		l.to.known.Store(head)
	}
	return head, nil
}

// responseHead is the head of a response. It is shared by responses.
type responseHead struct {
	*http.Response        // without its body
	kind, encoding string // media type and content encoding in small letters
	text           []byte // to recognize the head of a response that has chunks
}

// chunkedBody is the body of a response that has chunks. Unlike that of net/http, it accepts blanks behind the length
// of a chunk.
type chunkedBody struct {
	in   *bufio.Reader
	left int64 // of the current chunk
	more bool  // chunks were read, and the last is followed by a line end
	err  error // at the end of the body
}

// Read implements io.Reader. Trailers are not kept.
func (c *chunkedBody) Read(b []byte) (int, error) {
	if c.ready() != nil {
		return 0, c.err
	}

	n, err := c.in.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	c.err = noEOF(err)
	return n, c.err
}

// ready begins the next chunk if the current one was read, and returns the error of the body.
func (c *chunkedBody) ready() error {
	if c.left == 0 && c.err == nil {
		c.left, c.err = c.next()
	}
	return c.err
}

// next returns the length of the next chunk. After the last chunk, it reads the trailer and returns io.EOF.
func (c *chunkedBody) next() (int64, error) {
	if c.more {
		if line, err := c.line(); err != nil || len(line) > 0 {
			return 0, cmp.Or(err, errors.New("malformed chunk: its data is longer than its length"))
		}
	}

	c.more = true
	line, err := c.line()
	if err != nil {
		return 0, err
	}

	length, _, _ := strings.Cut(string(line), ";")
	n, err := strconv.ParseUint(strings.TrimSpace(length), 16, 63)
	if err != nil {
		return 0, fmt.Errorf("malformed chunk length %.40q", line)
	}
	if n == 0 {
		return 0, c.trailer()
	}
	return int64(n), nil
}

// line returns the next line without its end.
func (c *chunkedBody) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), noEOF(err)
}

// trailer reads the lines after the last chunk. It returns io.EOF.
func (c *chunkedBody) trailer() error {
	for range maxTrailer {
		line, err := c.line()
		if err != nil {
			return fmt.Errorf("the trailer of the response: %w", err)
		}
		if len(line) == 0 {
			return io.EOF
		}
	}
	return fmt.Errorf("the trailer of the response has more than %d lines", maxTrailer)
}

// maxTrailer limits the lines of a trailer.
const maxTrailer = 100

// Next implements openai.Source.
func (c *chunkedBody) Next() ([]byte, error) {
	if c.ready() != nil {
		return nil, c.err
	}

	data, err := openai.Buffer{Reader: c.in}.Next()
	c.err = noEOF(err)
	return data[:min(int64(len(data)), c.left)], c.err
}

// Discard implements openai.Source.
func (c *chunkedBody) Discard(n int) (int, error) {
	c.left -= int64(n)
	return c.in.Discard(n)
}

// Close implements io.Closer. It reads the end of the body.
func (c *chunkedBody) Close() error {
	_, err := io.Copy(io.Discard, c)
	return err
}

// noEOF returns io.ErrUnexpectedEOF for io.EOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxCopied is the size of bodies up to which one write of a copy is faster than two.
const maxCopied = 16 << 10

// heads are buffers of requests, which are needed only until a request is written. Few of them are in use at a time.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// posted is the request whose responses are parsed.
var posted = &http.Request{Method: http.MethodPost}

// done keeps the connection for the next request, or closes it. end is the end of the response.
func (l *link) done(keep bool, end int64) {
	if l.used = end; !keep {
		l.close()
	}
}

func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.Close() // the request has ended
		l.mu.Lock()
		l.conn = nil
		l.mu.Unlock()
	}
}

// requestHead returns the part of the head that all requests to a target have in common.
func (r *runner) requestHead(to *target) []byte {
	path := to.url.RequestURI()
	if to.proxy != nil && to.url.Scheme == "http" {
		path = to.url.String()
	}

	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n", path, cmp.Or(r.header.Get("Host"), to.url.Host))
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
