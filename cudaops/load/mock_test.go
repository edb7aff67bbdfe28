package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"aicplan/cudaops/load/loadtest"
)

// A mock is a mock server that has, besides, pages and messages of real servers.
type mock struct {
	*loadtest.Server

	// queue is the increase of the queue time from request to request. The prefill time is twice the queue time. tensorRT
	// reports them at TensorRT-LLM's path and with its names.
	queue    time.Duration
	tensorRT bool

	// cache remembers prompts until POST /reset_prefix_cache. It needs the server's truth.
	cache bool

	// edit, if not nil, returns what is sent instead of a message. The start of a stream is the message "".
	edit func(message string) []string

	mu                  sync.Mutex
	seen                map[string]bool
	looked, asked, hits int // requests looked up in the cache, and tokens
	resets              int
}

// cached returns a server with a prefix cache.
func cached(t *testing.T) *mock {
	t.Helper()
	srv := server(t, loadtest.Options{Truth: true})
	srv.cache = true
	return srv
}

// queued returns a server whose requests wait 3 ms longer than those before.
func queued(t *testing.T) *mock {
	t.Helper()
	srv := server(t, loadtest.Options{})
	srv.queue = 3 * time.Millisecond
	return srv
}

// Dial connects to the server through an in-memory pipe.
func (m *mock) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go m.handle(server)
	return client, nil
}

// listen returns an address at which the server is reached until the test ends.
func (m *mock) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.handle(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// handle serves one connection. Clients request pages on connections of their own.
func (m *mock) handle(c net.Conn) {
	var head bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &head)))
	if err != nil {
		_ = c.Close()
		return
	}
	if text, ok := m.page(req.Method + " " + req.URL.Path); ok {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		_ = c.Close()
		return
	}
	m.Handle(&edited{c, io.MultiReader(&head, c), m.edit})
}

func (m *mock) page(request string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case request == "POST /reset_prefix_cache" && m.cache:
		m.lookUp()
		clear(m.seen)
		m.resets++
		return "{}", true
	case request == "GET /metrics" && m.tensorRT:
		return `[{"iter":1,"gpuMemUsage":1}]`, true
	case request == "GET /metrics", request == "GET /prometheus/metrics" && m.tensorRT:
		return m.metrics(), m.cache || m.queue > 0
	}
	return "", false
}

// lookUp looks up the prompts of further requests in the cache.
func (m *mock) lookUp() {
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	list := m.Truths()
	for _, r := range list[m.looked:] {
		m.asked += r.Prompt
		if m.seen[string(r.Body)] {
			m.hits += r.Prompt
		}
		m.seen[string(r.Body)] = true
	}
	m.looked = len(list)
}

func (m *mock) metrics() string {
	var b strings.Builder
	if m.cache {
		m.lookUp()
		fmt.Fprintf(&b, "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{engine=\"0\"} %d\n"+
			"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total{engine=\"0\"} %d\n", m.asked, m.hits)
	}

	// Metrics with labels appear after the first request.
	if n := float64(m.Requests()); m.queue > 0 && n > 0 {
		waited := m.queue.Seconds() * n * (n + 1) / 2
		for name, sum := range map[string]float64{"queue": waited, "prefill": 2 * waited} {
			name = "vllm:request_" + name
			if m.tensorRT {
				name = strings.Replace(name, "vllm:", "trtllm_", 1)
			}
			fmt.Fprintf(&b, "# TYPE %[1]s_time_seconds histogram\n%[1]s_time_seconds_bucket{engine=\"0\",le=\"+Inf\"} %[2]v\n"+
				"%[1]s_time_seconds_count{engine=\"0\"} %[2]v\n%[1]s_time_seconds_sum{engine=\"0\"} %[3]v\n", name, n, sum)
		}
	}
	return b.String()
}

// edited is the connection of a server whose messages are edited.
type edited struct {
	net.Conn
	in   io.Reader
	edit func(message string) []string
}

func (c *edited) Read(b []byte) (int, error) { return c.in.Read(b) }

func (c *edited) Write(b []byte) (int, error) {
	text := string(b)
	if c.edit == nil {
		return c.Conn.Write(b)
	}

	_, message, chunk := strings.Cut(text, "\r\ndata: ")
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	var out strings.Builder
	switch {
	case !chunk && body != "":
		body = c.edit(body)[0]
		fmt.Fprintf(&out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	case !chunk && !strings.HasSuffix(head, "chunked"):
		return c.Conn.Write(b) // the end of a stream
	case !chunk:
		out.WriteString(text)
	}
	if body == "" {
		for _, m := range c.edit(strings.TrimSuffix(message, "\n\n\r\n")) {
			m = "data: " + m + "\n\n"
			fmt.Fprintf(&out, "%x\r\n%s\r\n", len(m), m)
		}
	}

	if out.Len() == 0 {
		return len(b), nil
	}
	_, err := io.WriteString(c.Conn, out.String())
	return len(b), err
}

// roleFirst adds a message with a role and without content at the start of a stream.
func roleFirst(message string) []string {
	if message == "" {
		return []string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`}
	}
	return []string{message}
}

// reasons returns an edit that makes the first three tokens of a stream reasoning, in a field with a name.
func reasons(field string) func(message string) []string {
	return func(message string) []string {
		if message == "" {
			return nil
		}
		for _, token := range []string{" alpha", " bravo", " charlie"} {
			message = strings.Replace(message, `"content":"`+token, `"`+field+`":"`+token, 1)
		}
		return []string{strings.Replace(message, `"total_tokens"`,
			`"completion_tokens_details":{"reasoning_tokens":3},"total_tokens"`, 1)}
	}
}

var usageField = regexp.MustCompile(`,"usage":{[^}]*}`)

// withoutUsage leaves the usage out.
func withoutUsage(message string) []string {
	if message == "" {
		return nil
	}
	return []string{usageField.ReplaceAllString(message, "")}
}
