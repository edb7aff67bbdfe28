package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Address returns the host and the port of an http or https URL.
func Address(u *url.URL) (string, error) {
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q has the scheme %q; http and https are known", u.Redacted(), u.Scheme)
	case u.Hostname() == "":
		return "", fmt.Errorf("%q names no host", u.Redacted())
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}

	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q has the port %q", u.Redacted(), port)
	}

	return net.JoinHostPort(u.Hostname(), port), nil
}

// ProxyOf returns the proxy that the environment variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a server, or "".
func ProxyOf(url string) string {
	s := Settings{URL: url}
	target, err := s.Target()
	if err != nil {
		return ""
	}

	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.Redacted()
}

// newTransport returns a transport that keeps all connections alive and uses the connections opened before
// the run first.
func (r *runner) newTransport() *http.Transport {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		for _, t := range r.targets {
			if t.address != address {
				continue
			}
			select {
			case c := <-t.ready:
				return c, nil
			default:
				return r.dial(ctx, t)
			}
		}
		return nil, fmt.Errorf("%s is no server of the load", address)
	}
	t := &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: 1 << 20,
		DisableCompression: true}
	if r.proxied { // the transport connects to the proxy, and through it to an https server
		t.Proxy, t.DialTLSContext, t.TLSClientConfig = http.ProxyFromEnvironment, nil, r.tls
		t.DialContext = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	return t
}

// dial opens a connection to a server and does the TLS handshake if its URL is https.
func (r *runner) dial(ctx context.Context, to *target) (net.Conn, error) {
	dial := r.options.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}

	c, err := dial(ctx, "tcp", to.address)
	if err != nil || to.url.Scheme != "https" {
		return c, err
	}

	config := r.tls.Clone()
	config.ServerName = to.url.Hostname()
	t := tls.Client(c, config)
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close() // the handshake error is more useful
		return nil, explainTLS(err)
	}

	return t, nil
}

// handshakeTime limits a TLS handshake. Servers without TLS may wait for more input.
const handshakeTime = 10 * time.Second

// explainTLS adds a hint to handshake errors with a common cause.
func explainTLS(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w; ca_file names the file of a private authority's certificates", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("the server does not speak TLS (%w); an http:// URL is for servers without it", err)
	}
	if alert := (tls.AlertError)(0); errors.As(err, &alert) && strings.Contains(alert.Error(), "no application protocol") {
		return fmt.Errorf("the server speaks no HTTP/1.1 (%w); a proxy that speaks it has to be before it", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no TLS handshake within %v; an http:// URL is for servers without TLS", handshakeTime)
	}
	return err
}

// stamps are the times of one request on the runner's clock in ns. A field is 0 if the event did not
// happen. The HTTP transport sets the atomic fields from its own goroutines.
type stamps struct {
	connected, sent, first atomic.Int64
	reused                 atomic.Bool

	body    io.Reader
	now     func() int64
	written func() // called when the request was sent; may be nil
	last    int64  // end of the last read of the body
	reads   int
	bytes   int64
}

func (x *stamps) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			x.connected.Store(x.now())
			x.reused.Store(c.Reused)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) {
			x.sent.Store(x.now())
			if x.written != nil {
				x.written()
			}
		},
		GotFirstResponseByte: func() { x.first.Store(x.now()) },
	}
}

// Read reads from the response body and stamps each read that returned data.
func (x *stamps) Read(b []byte) (int, error) {
	n, err := x.body.Read(b)
	if n > 0 {
		x.last = x.now()
		x.reads++
		x.bytes += int64(n)
	}
	return n, err
}

// read reads the response to a request: a stream event by event, any other body into s.body.
func (s *slot) read(res *http.Response, x *stamps) error {
	x.body = res.Body
	var in io.Reader = x

	switch e := strings.ToLower(res.Header.Get("Content-Encoding")); e {
	case "", "identity":
	case "gzip": // some proxies compress even if the client does not accept it
		z, err := gzip.NewReader(x)
		if err != nil {
			return fmt.Errorf("the answer is no gzip: %w", err)
		}
		in = z
	default:
		return fmt.Errorf("the answer is encoded as %.40q, which was not asked for; have the server or the proxy before it send it as it is, or as gzip", e)
	}

	if s.in == nil {
		s.in = bufio.NewReaderSize(in, 16<<10)
	}

	s.in.Reset(in)

	kind := mediaType(res)
	asked := res.StatusCode == http.StatusOK && s.r.settings.Streaming
	s.isSSE = asked && (kind == "" || kind == "text/event-stream")
	vague := asked && (kind == "text/plain" || kind == "application/octet-stream")
	n := 1
	if vague {
		n = len("event:")
	}

	head, err := s.in.Peek(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case len(head) == 0:
		s.isSSE = false // reported as an answer without a body
	case vague: // servers and proxies without support for event streams send these types
		s.isSSE = bytes.HasPrefix(head, []byte("data:")) || bytes.HasPrefix(head, []byte("event:")) || head[0] == ':'
	}

	if s.isSSE {
		return s.events.Read(s.in, s.event)
	}

	b := bytes.NewBuffer(s.body[:0])
	_, err = b.ReadFrom(io.LimitReader(s.in, maxAnswer+1))

	if s.body = b.Bytes(); len(s.body) > maxAnswer {
		return fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}

	return err
}

func mediaType(res *http.Response) string {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}
