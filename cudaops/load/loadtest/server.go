package loadtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// Server is a mock server.
type Server struct {
	opts Options

	mu     sync.Mutex
	truth  []Truth
	conns  map[net.Conn]bool
	bodies map[bodyKey][]byte
	seen   map[uint64]bool
	down   bool
	active sync.WaitGroup // connections

	number       atomic.Int64 // of generation requests
	open, most   atomic.Int64 // of requests in progress
	hits, asked  atomic.Int64 // tokens of the prefix cache
	connections  atomic.Int64
	cacheCleared atomic.Int64
}

// Truth is what the server knows of one request. Times are nanoseconds since
// the Unix epoch.
type Truth struct {
	ID string `json:"x_request_id"`
	// Received is when the request's last byte was read; Sent is when each
	// message with tokens was handed to the kernel.
	Received int64   `json:"received_ns"`
	Sent     []int64 `json:"sent_ns"`
	Prompt   int     `json:"prompt_tokens"`
	Tokens   int     `json:"completion_tokens"`
	Asked    int     `json:"asked_tokens"`
	Fault    string  `json:"fault,omitempty"`
	// Header and Body are as received, without the key.
	Header map[string]string `json:"header,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"`
}

// New makes a server.
func New(o Options) (*Server, error) {
	if err := o.settle(); err != nil {
		return nil, err
	}
	return &Server{opts: o, conns: map[net.Conn]bool{}, bodies: map[bodyKey][]byte{}, seen: map[uint64]bool{}}, nil
}

// Serve takes connections until ctx ends or the listener fails.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close(); s.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		go s.Handle(c)
	}
}

// Close closes all connections.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for c := range s.conns {
		_ = c.Close() // clients see the end
	}
}

// Wait waits, after Close, until no connection is served any more.
func (s *Server) Wait() { s.active.Wait() }

// Truths returns what was noted, in order of receipt.
func (s *Server) Truths() []Truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Truth(nil), s.truth...)
}

// Requests counts generation requests; MostOpen is the most that were in
// progress at once; Connections counts accepted connections; CacheResets counts
// calls of /reset_prefix_cache.
func (s *Server) Requests() int    { return int(s.number.Load()) }
func (s *Server) MostOpen() int    { return int(s.most.Load()) }
func (s *Server) Connections() int { return int(s.connections.Load()) }
func (s *Server) CacheResets() int { return int(s.cacheCleared.Load()) }

// Handle serves one connection until it ends.
func (s *Server) Handle(c net.Conn) {
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		_ = c.Close()
		return
	}
	s.conns[c] = true
	s.active.Add(1)
	s.mu.Unlock()
	s.connections.Add(1)
	defer s.active.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	r := bufio.NewReaderSize(c, 8<<10)
	var body []byte
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		if n := req.ContentLength; n >= 0 && n < 64<<20 {
			if int64(cap(body)) < n {
				body = make([]byte, n)
			}
			body = body[:n]
			_, err = io.ReadFull(req.Body, body)
		} else {
			body, err = io.ReadAll(io.LimitReader(req.Body, 64<<20))
		}
		if err != nil {
			return
		}
		if !s.route(c, req, body) {
			return
		}
	}
}

// route answers one request; false ends the connection.
func (s *Server) route(c net.Conn, req *http.Request, body []byte) bool {
	path := strings.TrimSuffix(req.URL.Path, "/")
	if k := s.opts.Key; k != "" && req.Header.Get("Authorization") != "Bearer "+k {
		return plain(c, 401, "application/json", `{"error":{"message":"Unauthorized","type":"auth","code":401}}`)
	}
	switch {
	case strings.HasSuffix(path, "/chat/completions"), strings.HasSuffix(path, "/completions"):
		if req.Method != http.MethodPost {
			return plain(c, 405, "application/json", `{"error":{"message":"POST only"}}`)
		}
		return s.generate(c, req, body, strings.HasSuffix(path, "/chat/completions"))
	case path == "/health", path == "/ping":
		return plain(c, 200, "text/plain", "")
	case path == "/v1/models":
		return plain(c, 200, "application/json", `{"object":"list","data":[{"id":"mock","object":"model"}]}`)
	case path == "/tokenize" && !s.opts.NoTokenize:
		text := gjson.GetBytes(body, "prompt").String()
		ids := []string{}
		for i := range strings.Fields(text) {
			ids = append(ids, strconv.Itoa(i+1))
		}
		return plain(c, 200, "application/json", fmt.Sprintf(`{"count":%d,"max_model_len":131072,"tokens":[%s]}`, len(ids), strings.Join(ids, ",")))
	case path == "/metrics" && s.opts.PrefixCache:
		return plain(c, 200, "text/plain; version=0.0.4", fmt.Sprintf(
			"# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{engine=\"0\"} %d\n"+
				"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total{engine=\"0\"} %d\n", s.asked.Load(), s.hits.Load()))
	case path == "/reset_prefix_cache" && s.opts.PrefixCache:
		s.mu.Lock()
		clear(s.seen)
		s.mu.Unlock()
		s.cacheCleared.Add(1)
		return plain(c, 200, "application/json", "{}")
	case path == "/truth":
		s.mu.Lock()
		text, err := json.Marshal(s.truth)
		s.mu.Unlock()
		if err != nil {
			return plain(c, 500, "text/plain", err.Error())
		}
		return plain(c, 200, "application/json", string(text))
	}
	return plain(c, 404, "application/json", `{"error":{"message":"not found"}}`)
}

// plain sends a whole answer.
func plain(c net.Conn, status int, kind, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), kind, len(body), body)
	return err == nil
}

// a request for tokens
type ask struct {
	id       string
	chat     bool
	stream   bool
	usage    bool
	tokens   int // to send
	wanted   int // asked for
	prompt   int
	number   int
	fault    Fault
	received time.Time
	truth    int // index, -1 without
	model    string
}

func (s *Server) generate(c net.Conn, req *http.Request, body []byte, chat bool) bool {
	a := &ask{id: req.Header.Get("X-Request-ID"), chat: chat, received: s.opts.Now(), number: int(s.number.Add(1)), truth: -1}
	open := s.open.Add(1)
	defer s.open.Add(-1)
	for {
		most := s.most.Load()
		if open <= most || s.most.CompareAndSwap(most, open) {
			break
		}
	}
	if !gjson.ValidBytes(body) {
		return plain(c, 400, "application/json", `{"error":{"message":"the body is no JSON","type":"BadRequestError","code":400}}`)
	}
	f := gjson.GetManyBytes(body, "stream", "stream_options.include_usage", "max_completion_tokens", "max_tokens", "model")
	a.stream, a.usage, a.model = f[0].Bool(), f[1].Bool(), f[4].String()
	a.wanted = int(f[2].Int())
	if a.wanted == 0 {
		a.wanted = int(f[3].Int())
	}
	a.tokens = a.wanted
	if a.tokens == 0 {
		a.tokens = s.opts.Tokens
	}
	if n := s.opts.TokenSpread; n > 0 {
		a.tokens = max(1, a.tokens+a.number*7%(2*n+1)-n)
	}
	for _, f := range s.opts.Faults {
		if f.strikes(a.number) {
			a.fault = f
			break
		}
	}
	if s.opts.Truth || s.opts.PrefixCache {
		s.note(a, req, body)
	} else {
		a.prompt = s.promptTokens(body, chat)
	}
	ok := s.answer(c, a)
	return ok
}

// promptTokens counts words of text, and ids.
func (s *Server) promptTokens(body []byte, chat bool) int {
	n := 0
	count := func(v gjson.Result) {
		switch {
		case v.IsArray():
			v.ForEach(func(_, e gjson.Result) bool {
				if e.Type == gjson.Number {
					n++
				} else if e.IsObject() {
					n += len(strings.Fields(e.Get("text").String()))
				}
				return true
			})
		default:
			n += len(strings.Fields(v.String()))
		}
	}
	if !chat {
		count(gjson.GetBytes(body, "prompt"))
		return n
	}
	gjson.GetBytes(body, "messages").ForEach(func(_, m gjson.Result) bool {
		count(m.Get("content"))
		return true
	})
	return n
}

// note keeps a request, and looks its prompt up in the prefix cache.
func (s *Server) note(a *ask, req *http.Request, body []byte) {
	a.prompt = s.promptTokens(body, a.chat)
	key := gjson.GetBytes(body, "messages").Raw + gjson.GetBytes(body, "prompt").Raw
	h := fnv.New64a()
	_, _ = io.WriteString(h, key) // a hash does not fail
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Add(int64(a.prompt))
	if s.seen[h.Sum64()] {
		s.hits.Add(int64(a.prompt))
	}
	s.seen[h.Sum64()] = true
	if !s.opts.Truth {
		return
	}
	header := map[string]string{}
	for name := range req.Header {
		if name != "Authorization" {
			header[name] = req.Header.Get(name)
		}
	}
	a.truth = len(s.truth)
	s.truth = append(s.truth, Truth{
		ID: a.id, Received: a.received.UnixNano(), Prompt: a.prompt, Asked: a.wanted, Fault: a.fault.Kind,
		Header: header, Body: append(json.RawMessage(nil), body...),
	})
}

// sent notes a message with tokens.
func (s *Server) sent(a *ask, at time.Time, tokens int) {
	if a.truth < 0 {
		return
	}
	s.mu.Lock()
	t := &s.truth[a.truth]
	t.Sent = append(t.Sent, at.UnixNano())
	t.Tokens += tokens
	s.mu.Unlock()
}
