package load

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestRedirectsDoNotGetTheAPIKey checks that the target of a redirect gets no request: a
// server that redirects GET /metrics would otherwise receive the API key elsewhere.
func TestRedirectsDoNotGetTheAPIKey(t *testing.T) {
	t.Parallel()
	stolen := 0
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen++ }))
	defer thief.Close()

	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer sk-abcdefgh" {
			asked++
		}
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()

	s := DefaultSettings()
	s.URL, s.Model, s.APIKey, s.Requests = server.URL, "m", "sk-abcdefgh", 1
	r, err := newRunner(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := newCacheProbe(r, r.targets[0])
	for method, path := range map[string]string{http.MethodGet: "/metrics", http.MethodPost: "/flush_cache"} {
		if status, _ := p.do(t.Context(), method, path); status != http.StatusTemporaryRedirect {
			t.Errorf("%s %s: status %d", method, path, status)
		}
	}
	if asked != 2 || stolen != 0 {
		t.Errorf("%d requests with the key, %d followed the redirect", asked, stolen)
	}
}

// TestServersWithAnotherProtocol checks the errors of a server without TLS and of one that offers no HTTP/1.1.
func TestServersWithAnotherProtocol(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	h2 := httptest.NewUnstartedServer(http.NotFoundHandler())
	h2.TLS = &tls.Config{NextProtos: []string{"h2c"}} // Go accepts clients of HTTP/1.1 if this is h2
	h2.Config.ErrorLog = log.New(io.Discard, "", 0)
	h2.StartTLS()
	defer h2.Close()

	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closing.Close()
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			c.Close()
		}
	}()

	for url, want := range map[string]string{
		"https://" + closing.Addr().String():             "closed the connection in the TLS handshake; an http:// URL",
		strings.Replace(plain.URL, "http:", "https:", 1): "the server does not speak TLS",
		h2.URL: "the server speaks no HTTP/1.1",
	} {
		e := measure(t, map[string]any{"url": url, "model": "m"}, `{"load": {"requests": 1}}`, "chat", `{}`)
		if e.failure == nil || !strings.Contains(e.failure.Message, want) {
			t.Errorf("%s: %+v, want %q", url, e.failure, want)
		}
	}
}

// TestProxyWithTLS connects through a proxy whose URL is https, to servers with and without TLS.
func TestProxyWithTLS(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the server") })
	server := httptest.NewTLSServer(answer)
	defer server.Close()
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodConnect {
			answer(w, req)
			return
		}
		to, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, c) }()
		_, _ = io.Copy(c, to)
	}))
	defer proxy.Close()

	for _, text := range []string{"http://example.com", "https://example.com"} {
		s := DefaultSettings()
		s.URL, s.Model, s.Requests = text, "m", 1
		r, err := newRunner(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		to := r.targets[0]
		r.tls = proxy.Client().Transport.(*http.Transport).TLSClientConfig
		if to.proxy, err = url.Parse(proxy.URL); err != nil {
			t.Fatal(err)
		}
		to.proxyAddress = to.proxy.Host

		c, err := r.dial(t.Context(), to)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: example.com\r\n\r\n", text)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "the server" {
			t.Errorf("%s: %q, %v", text, body, err)
		}
		res.Body.Close()
		c.Close()
	}
}
