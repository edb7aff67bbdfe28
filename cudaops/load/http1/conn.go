package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Dialer opens connections to one server.
type Dialer struct {
	// Address is host:port.
	Address string
	// TLS is the configuration for https, nil for http.
	TLS *tls.Config
	// Dial opens the transport; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewDialer takes an http or https URL; its path is the caller's.
func NewDialer(u *url.URL) (*Dialer, error) {
	d := &Dialer{}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
		d.TLS = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	default:
		return nil, fmt.Errorf("%q has the scheme %q; http and https are known", u.Redacted(), u.Scheme)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return nil, fmt.Errorf("%q has the port %q", u.Redacted(), port)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%q names no host", u.Redacted())
	}
	d.Address = net.JoinHostPort(u.Hostname(), port)
	return d, nil
}

// A Conn is one connection, for one caller at a time.
type Conn struct {
	net    net.Conn
	parser parser
	buf    []byte
	used   bool
	closed atomic.Bool
}

// bufferSize is one read's most; an answer of one write fits.
const bufferSize = 16 << 10

// Open dials.
func (d *Dialer) Open(ctx context.Context) (*Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	c, err := dial(ctx, "tcp", d.Address)
	if err != nil {
		return nil, err
	}
	if d.TLS != nil {
		t := tls.Client(c, d.TLS)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = c.Close() // the handshake's error says more
			return nil, explain(err)
		}
		c = t
	}
	return &Conn{net: c, buf: make([]byte, bufferSize)}, nil
}

// explain adds what to do to errors of the handshake that have a usual cause.
func explain(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w; ca_file names the file of a private authority's certificates", err)
	}
	if strings.Contains(err.Error(), "no application protocol") {
		return fmt.Errorf("the server offers no HTTP/1.1 over TLS, perhaps HTTP/2 alone (%v); put a proxy that speaks HTTP/1.1 before it", err)
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the server closed the connection during the TLS handshake (%w)", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("the server does not speak TLS (%w); an http:// URL is for servers without it", err)
	}
	return err
}

// Close closes the connection; a Do in progress returns net.ErrClosed.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.net.Close()
}

// Reused reports whether a request was answered on it before.
func (c *Conn) Reused() bool { return c.used }

// Exchange is one request and its outcome. Times come from the now that
// Do was given.
type Exchange struct {
	Head
	// Sent is when the request's last byte was handed to the kernel.
	Sent int64
	// First and Last are when the first and the last byte were read; 0 without
	// one.
	First, Last int64
	// Reads and Bytes count what came.
	Reads int
	Bytes int64
	// Keep is true when the connection can take another request.
	Keep bool
}

// Do sends a request, head and body as they are, and reads its response. Every
// part of the body goes to body with the time at which the read that brought it
// returned; a part is valid only during the call. now gives nanoseconds of a
// clock of the caller's. An error leaves the connection closed.
func (c *Conn) Do(request []byte, now func() int64, body func(x *Exchange, part []byte, at int64) error) (x Exchange, err error) {
	defer func() {
		if err != nil || !x.Keep {
			_ = c.Close() // the exchange's error says more
		}
	}()
	c.parser.reset()
	written, writeErr := c.net.Write(request)
	if writeErr != nil {
		// A server that refuses early may have answered all the same.
		if errors.Is(writeErr, net.ErrClosed) {
			return x, writeErr
		}
		if written == 0 && hungUp(writeErr) {
			return x, ErrUnread
		}
	}
	x.Sent = now()
	for {
		n, err := c.net.Read(c.buf)
		at := now()
		if n > 0 {
			x.Reads++
			x.Bytes += int64(n)
			if x.First == 0 {
				x.First = at
			}
			x.Last = at
			took, perr := c.parser.feed(c.buf[:n], func(part []byte) error {
				x.Head = c.parser.head
				return body(&x, part, at)
			})
			x.Head = c.parser.head
			if perr != nil {
				return x, perr
			}
			if c.parser.state == done {
				c.used = true
				// Bytes after the response are nobody's: the next answer would begin
				// in the wrong place.
				x.Keep = !c.parser.close && took == n && writeErr == nil
				return x, nil
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				if perr := c.parser.end(); perr != nil {
					if writeErr != nil && !c.parser.begun {
						return x, writeErr
					}
					if errors.Is(perr, ErrNoResponse) && unread(c.net) {
						return x, ErrUnread
					}
					return x, perr
				}
				x.Head = c.parser.head
				return x, nil
			}
			if writeErr != nil {
				return x, writeErr
			}
			return x, err
		}
	}
}

// hungUp says that the other end is gone.
func hungUp(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// SetDeadline bounds the exchange that follows; the zero time means none.
func (c *Conn) SetDeadline(t time.Time) error { return c.net.SetDeadline(t) }

// Stale reports whether the server has closed the idle connection, or sent
// what nobody asked for: such a connection takes no request. Where that cannot
// be seen without reading it is false.
func (c *Conn) Stale() bool { return stale(c.net) }
