package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
)

// answer feeds bytes in pieces and returns the body.
func answer(text string, piece int) (body string, p parser, left int, err error) {
	var b bytes.Buffer
	for in := []byte(text); len(in) > 0; {
		n := min(piece, len(in))
		took, err := p.feed(in[:n], func(part []byte) error { b.Write(part); return nil })
		if err != nil {
			return b.String(), p, 0, err
		}
		if took < n || p.state == done {
			return b.String(), p, len(in) - took, nil
		}
		in = in[n:]
	}
	return b.String(), p, 0, p.end()
}

func TestResponses(t *testing.T) {
	for _, c := range []struct {
		name, text, body string
		status           int
		close            bool
		left             int
	}{
		{name: "length", text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", body: "hello", status: 200},
		{name: "chunked", text: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n", body: "hello world", status: 200},
		{name: "until the end", text: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n", body: "data: x\n\n", status: 200, close: true},
		{name: "no body", text: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "empty body", text: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200},
		{name: "interim", text: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", body: "x", status: 200},
		{name: "close", text: "HTTP/1.1 503 Service Unavailable\r\nConnection: keep-alive, Close\r\nContent-Length: 2\r\n\r\nno", body: "no", status: 503, close: true},
		{name: "1.0", text: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", body: "ok", status: 200, close: true},
		{name: "1.0 kept", text: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", body: "ok", status: 200},
		{name: "bare line ends", text: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", body: "ok", status: 200},
		{name: "no reason", text: "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", body: "ok", status: 200},
		{name: "both framings", text: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", body: "ok", status: 200, close: true},
		{name: "bytes behind it", text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP", body: "ok", status: 200, left: 4},
	} {
		for piece := 1; piece <= len(c.text); piece++ {
			body, p, left, err := answer(c.text, piece)
			if err != nil || body != c.body || p.head.Status != c.status || p.close != c.close || left != c.left {
				t.Errorf("%s in pieces of %d: %q, status %d, close %v, %d left: %v", c.name, piece, body, p.head.Status, p.close, left, err)
			}
		}
	}
}

func TestBrokenResponses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ErrNoResponse.Error()},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ErrTruncated.Error()},
		{"HTTP/1.1 200 OK\r\nContent-Le", ErrTruncated.Error()},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", ErrTruncated.Error()},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "a chunk's size"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "a chunk's size"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", "a chunk's size"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", "a chunk is followed by"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "is not known here"},
		{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length"},
		{"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "a header line"},
		{"HTTP/2 200\r\n\r\n", "HTTP/1.1"},
		{"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1"},
		{"HTTP/1.1 2000 OK\r\n\r\n", "the status line"},
		{"HTTP/1.1 101 Switching Protocols\r\n\r\n", "switched protocols"},
		{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\n\r\n", "longer than 64 KiB"},
	} {
		_, _, _, err := answer(c.text, 7)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q gave %v, want %q", c.text, err, c.want)
		}
	}
}

func TestKeepsItsConnection(t *testing.T) {
	client, server := net.Pipe()
	u, err := url.Parse("http://mock")
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDialer(u)
	if err != nil {
		t.Fatal(err)
	}
	d.Dial = func(context.Context, string, string) (net.Conn, error) { return client, nil }
	c, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 100)
		for _, text := range []string{
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
		} {
			if _, err := server.Read(buf); err != nil {
				return
			}
			_, _ = io.WriteString(server, text)
		}
	}()
	clock := int64(0)
	now := func() int64 { clock++; return clock }
	var got []string
	body := func(x *Exchange, part []byte, at int64) error {
		if at != x.Last || x.Status != 200 {
			t.Errorf("%+v at %d", x, at)
		}
		got = append(got, string(part))
		return nil
	}
	x, err := c.Do([]byte("GET"), now, body)
	if err != nil || !x.Keep || !c.Reused() || x.Sent != 1 || x.First != 2 {
		t.Fatalf("%+v, %v", x, err)
	}
	x, err = c.Do([]byte("GET"), now, body)
	if err != nil || x.Keep {
		t.Fatalf("%+v, %v", x, err)
	}
	if _, err = c.Do([]byte("GET"), now, body); !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a closed connection gave %v", err)
	}
	if strings.Join(got, " ") != "ok no" {
		t.Errorf("got %q", got)
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://h": "h:80", "https://h": "h:443", "http://h:8000/v1": "h:8000", "http://[::1]:9": "[::1]:9",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := NewDialer(u); err != nil || d.Address != want || (d.TLS != nil) != strings.HasPrefix(text, "https") {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
	for _, text := range []string{"ftp://h", "http://:8000", "http://h:99999", "http://h:0"} {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		if _, err := NewDialer(u); err == nil {
			t.Errorf("%s passes", text)
		}
	}
}

// FuzzResponse holds that no bytes make the reader panic, loop or disagree with
// itself about the same bytes in other pieces.
func FuzzResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 3)
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1)
	f.Add("HTTP/1.0 200 OK\n\nrest", 2)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		if piece < 1 {
			piece = 1
		}
		whole, p, left, err := answer(text, len(text)+1)
		cut, q, left2, err2 := answer(text, piece)
		if (err == nil) != (err2 == nil) || err == nil && (whole != cut || p.head != q.head || p.close != q.close || left != left2) {
			t.Errorf("whole: %q %+v %d %v; in pieces of %d: %q %+v %d %v", whole, p.head, left, err, piece, cut, q.head, left2, err2)
		}
		if len(whole) > len(text) {
			t.Errorf("%d bytes of body out of %d", len(whole), len(text))
		}
	})
}
