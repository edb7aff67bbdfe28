package loadtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"aicplan/cudaops/load/arrival"
	"aicplan/cudaops/load/openai"
	"aicplan/sink/base/textutil"
)

// Server is a mock server. It is safe for concurrent use.
type Server struct {
	opts Options

	mu     sync.Mutex
	truth  []Truth
	conns  map[net.Conn]bool
	down   bool
	active sync.WaitGroup // connections
	slots  chan struct{}  // nil if unlimited

	number    atomic.Int64 // number of generation requests
	profiling atomic.Bool
	profiles  atomic.Int64
}

// Truth is the server's record of one request. Times are nanoseconds since the Unix epoch.
type Truth struct {
	ID string `json:"x_request_id"`

	// Received is when the kernel received the last byte of the request, or when it was read if that is unknown. Sent is
	// when each message with tokens was passed to the kernel.
	Received int64   `json:"received_ns"`
	Sent     []int64 `json:"sent_ns"`
	Prompt   int     `json:"prompt_tokens"`
	Tokens   int     `json:"completion_tokens"`
	Asked    int     `json:"asked_tokens"`
	Fault    string  `json:"fault,omitempty"`

	// Header and Body are as received, without the key. Large bodies are left out.
	Header map[string]string `json:"header,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"`
}

// New returns a server.
func New(o Options) (*Server, error) {
	if err := o.settle(); err != nil {
		return nil, err
	}
	s := &Server{opts: o, conns: map[net.Conn]bool{}}
	if o.Slots > 0 {
		s.slots = make(chan struct{}, o.Slots)
	}
	return s, nil
}

// Serve accepts connections until ctx is done or the listener fails.
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
		_ = c.Close() // clients see the connection end
	}
}

// Wait waits after Close until all connections have ended.
func (s *Server) Wait() { s.active.Wait() }

// Truths returns the recorded requests in order of receipt.
func (s *Server) Truths() []Truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Truth(nil), s.truth...)
}

// Requests returns the number of generation requests.
func (s *Server) Requests() int { return int(s.number.Load()) }

// Handle serves one connection until it ends.
func (s *Server) Handle(c net.Conn) {
	c = arrival.Conn(c)
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		_ = c.Close()
		return
	}

	s.conns[c] = true
	s.active.Add(1)
	s.mu.Unlock()
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

// route responds to one request. It returns false if the connection must be closed.
func (s *Server) route(c net.Conn, req *http.Request, body []byte) bool {
	path := strings.TrimSuffix(req.URL.Path, "/")
	if k := s.opts.Key; k != "" && req.Header.Get(s.opts.KeyHeader) != k {
		return plain(c, 401, "application/json", `{"error":{"message":"Unauthorized","type":"auth","code":401}}`)
	}

	switch _, endpoint := openai.Split(path); {
	case endpoint != "" && req.Method != http.MethodPost:
		return plain(c, 405, "application/json", `{"error":{"message":"POST only"}}`)

	case endpoint != "":
		return s.generate(c, endpoint, req.Header, body)

	case path == "/health", path == "/ping":
		return plain(c, 200, "text/plain", "")

	case path == "/v1/models":
		return plain(c, 200, "application/json", `{"object":"list","data":[{"id":"mock","object":"model"}]}`)

	case s.opts.ProfileDir != "" && (path == "/start_profile" || path == "/stop_profile"):
		return s.profile(c, path == "/start_profile")

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

// plain sends a complete response. It returns false if writing fails.
func plain(c net.Conn, status int, kind, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), kind, len(body), body)
	return err == nil
}

// ask is a generation request.
type ask struct {
	id       string
	endpoint openai.Endpoint
	stream   bool
	usage    bool
	tokens   int // number of tokens to send
	wanted   int // requested number of tokens
	items    int // embeddings or ranked documents
	prompt   int
	number   int
	fault    Fault
	received time.Time
	began    time.Time // after waiting for a slot
	truth    int       // index in Server.truth, or -1
	model    string
	ids      bool // token ids are requested
}

func (s *Server) generate(c net.Conn, endpoint openai.Endpoint, header http.Header, body []byte) bool {
	a := &ask{id: header.Get("X-Request-ID"), endpoint: endpoint, received: time.Now(), number: int(s.number.Add(1)),
		truth: -1}
	if clock := arrival.Of(c); clock != nil && clock.Arrived() > 0 {
		a.received = time.Unix(0, min(clock.Arrived(), a.received.UnixNano()))
	}

	a.began = a.received
	if !gjson.ValidBytes(body) {
		return plain(c, 400, "application/json",
			`{"error":{"message":"the body is no JSON","type":"BadRequestError","code":400}}`)
	}

	var limit int64
	tokens := false // the prompt is token ids
	gjson.ParseBytes(body).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "stream":
			a.stream = v.Bool()

		case "stream_options":
			a.usage = v.Get("include_usage").Bool()

		case "max_completion_tokens", "max_output_tokens":
			a.wanted = int(v.Int())

		case "max_tokens":
			limit = v.Int()

		case "model":
			a.model = v.String()

		case "messages", "query":
			a.prompt += promptTokens(v)

		case "prompt":
			tokens = v.IsArray()
			a.prompt += promptTokens(v)

		case "input", "documents":
			a.prompt += promptTokens(v)
			a.items = int(v.Get("#").Int())

		case "return_token_ids":
			a.ids = v.Bool()
		}

		return true
	})

	if s.opts.SkipTokenizer && !tokens {
		return plain(
			c,
			400,
			"application/json",
			`{"error":{"message":"Unable to get tokenizer because `+
				`skip_tokenizer_init=True","type":"BadRequestError","code":400}}`,
		)
	}

	a.wanted = cmp.Or(a.wanted, int(limit))
	a.tokens = cmp.Or(a.wanted, s.opts.Tokens)

	if n := s.opts.TokenSpread; n > 0 {
		a.tokens = max(1, a.tokens+a.number*7%(2*n+1)-n)
	}

	if !endpoint.Generates() {
		a.tokens = a.items
	}

	for _, f := range s.opts.Faults {
		if f.strikes(a.number) {
			a.fault = f
			break
		}
	}

	if s.opts.Truth {
		s.note(a, header, body)
	}

	if s.slots != nil {
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		if arrival.Closed(c) {
			return false // real servers abort such requests
		}
		a.began = time.Now()
	}

	return s.answer(c, a)
}

// promptTokens counts the words of texts and of the contents of messages, and token ids.
func promptTokens(v gjson.Result) (n int) {
	switch {
	case v.IsArray():
		v.ForEach(func(_, e gjson.Result) bool {
			n += promptTokens(e)
			return true
		})
		return n
	case v.IsObject():
		return promptTokens(v.Get("content")) + promptTokens(v.Get("text"))
	case v.Type == gjson.Number:
		return 1
	}

	for range strings.FieldsSeq(v.String()) {
		n++
	}
	return n
}

// note records a request.
func (s *Server) note(a *ask, from http.Header, body []byte) {
	header := map[string]string{}
	for name := range from {
		if !textutil.SecretName(name) && name != s.opts.KeyHeader {
			header[name] = from.Get(name)
		}
	}

	t := Truth{ID: a.id, Received: a.received.UnixNano(), Prompt: a.prompt, Asked: a.wanted, Fault: a.fault.Kind,
		Header: header}
	if len(body) <= maxTruthBody {
		t.Body = bytes.Clone(body)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	a.truth = len(s.truth)
	s.truth = append(s.truth, t)
}

// maxTruthBody is the largest body that is recorded, in bytes.
const maxTruthBody = 16 << 10

// sent records a message with tokens.
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
