package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicplan/cudaops/load/arrival"
	"aicplan/cudaops/load/openai"
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

// ProxyOf returns the proxy that the environment variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a server,
// or "".
func ProxyOf(url string) string {
	if proxy := proxyOf(url); proxy != nil {
		return proxy.Redacted()
	}
	return ""
}

func proxyOf(server string) *url.URL {
	target, err := parseURL(server)
	if err != nil {
		return nil
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		return nil
	}
	return proxy
}

// proxyAuth returns the header with the credentials of a proxy, or "".
func proxyAuth(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Proxy-Authorization: Basic " +
		base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
}

// tunnel asks the proxy at the other end of a connection to connect to the target.
func tunnel(c net.Conn, to *target) error {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n%s\r\n", to.address, proxyAuth(to.proxy))
	if err != nil {
		return err
	}

	res, err := http.ReadResponse(bufio.NewReaderSize(c, 1), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("the proxy: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the proxy does not connect to %s: %s", to.address, res.Status)
	}
	return c.SetDeadline(time.Time{})
}

// dial opens a connection to a server and does the TLS handshake if its URL is https.
func (r *runner) dial(ctx context.Context, to *target) (net.Conn, error) {
	dial := r.options.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}

	address := to.address
	if to.proxy != nil {
		address = to.proxyAddress
	}

	c, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}

	c = arrival.Conn(c)
	if to.proxy != nil && to.proxy.Scheme == "https" {
		if c, err = r.handshake(ctx, c, to.proxy.Hostname()); err != nil {
			return nil, fmt.Errorf("the proxy: %w", err)
		}
	}
	if to.url.Scheme != "https" {
		return c, nil
	}

	if to.proxy != nil {
		if err := tunnel(c, to); err != nil {
			_ = c.Close() // the error of the proxy is more useful
			return nil, err
		}
	}

	return r.handshake(ctx, c, to.url.Hostname())
}

// handshake does the TLS handshake with a host. It closes the connection if that fails.
func (r *runner) handshake(ctx context.Context, c net.Conn, host string) (net.Conn, error) {
	config := r.tls.Clone()
	config.ServerName = host
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
	if errors.Is(err, io.EOF) {
		return errors.New("the server closed the connection in the TLS handshake; an http:// URL is for servers without TLS")
	}
	if strings.Contains(err.Error(), "no application protocol") { // the type of the alert is not exported
		return fmt.Errorf(
			"the server speaks no HTTP/1.1, which is the only version that load uses; put a proxy before it that does (%s)",
			plainNet(err),
		)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no TLS handshake within %v; an http:// URL is for servers without TLS", handshakeTime)
	}
	return err
}

// read reads the response to a request: a stream event by event, any other body into s.body.
func (s *slot) read(head *responseHead) error {
	var in io.Reader = s.link.content
	switch head.encoding {
	case "", "identity":
	case "gzip": // some proxies compress even if the client does not accept it
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("the answer is no gzip: %w", err)
		}
		in = z
	default:
		return fmt.Errorf(
			"the answer is encoded as %.40q, which the client does not accept; configure the server or its proxy to send "+
				"identity or gzip",
			head.encoding,
		)
	}

	asked := head.StatusCode == http.StatusOK && s.r.settings.Streaming
	s.isSSE = asked && (head.kind == "" || head.kind == "text/event-stream")
	vague := asked && !s.isSSE
	source, ok := in.(openai.Source)
	if vague || s.isSSE && !ok {
		if s.in.Reader == nil {
			s.in.Reader = bufio.NewReader(nil)
		}
		s.in.Reset(in)
		in, source = s.in, s.in
	}

	if vague { // servers and proxies without support for event streams send other types
		start, err := s.in.Peek(len("event:"))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		s.isSSE = bytes.HasPrefix(start, []byte("data:")) || bytes.HasPrefix(start, []byte("event:")) ||
			bytes.HasPrefix(start, []byte(":"))
	}

	if s.isSSE {
		switch _, err := source.Next(); {
		case err == nil:
			s.parser = parsers.Get().(*openai.Parser)
			defer parsers.Put(s.parser)
			return s.events.Read(source, s.event)
		case !errors.Is(err, io.EOF):
			return err
		}
		s.isSSE = false // reported as an answer without a body
	}

	b := bytes.NewBuffer(s.body[:0])
	_, err := b.ReadFrom(io.LimitReader(in, maxAnswer+1))

	if s.body = b.Bytes(); len(s.body) > maxAnswer {
		return fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}

	return err
}

// parsers are reused by all slots. What a parser remembers is in the processor's cache then, which the parsers of
// thousands of slots would not be.
var parsers = sync.Pool{New: func() any { return new(openai.Parser) }}
