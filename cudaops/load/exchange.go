package load

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load/http1"
	"aicplan/cudaops/load/metrics"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/prompts"
	"aicplan/cudaops/load/sse"
)

// maxError bounds the text of an answer that is kept of a failure, in bytes.
const maxError = 2 << 10

// maxAnswer bounds an answer that is no stream, in bytes.
const maxAnswer = 64 << 20

// A slot sends one request at a time and keeps its connection and memory.
type slot struct {
	r    *runner
	conn *http1.Conn
	ids  *rand.ChaCha8
	idle int64 // when the connection was used last

	request []byte
	content []byte // the body of the request
	events  sse.Reader
	parser  openai.Parser
	body    []byte // of an answer that is no stream
	inflate *inflater
	text    strings.Builder
	reason  strings.Builder
	calls   strings.Builder // of tools

	prefilling bool // it holds a place of runner.prefill

	// Of the exchange in progress.
	rec    *metrics.Record
	isSSE  bool
	typed  bool
	sniff  bool // the body's first bytes say whether it is one
	done   bool
	tokens int // ids that the answer has told
	failed error
	at     int64
}

// dial connects, which counts into the record where there is one.
func (s *slot) dial(ctx context.Context) error {
	c, err := s.r.dialer.Open(ctx)
	if err != nil {
		return err
	}
	if !s.r.open(c) {
		_ = c.Close() // the run is over
		return context.Canceled
	}
	s.conn = c
	return nil
}

func (s *slot) drop() {
	if s.conn != nil {
		s.r.gone(s.conn)
		_ = s.conn.Close() // it is of no use any more
		s.conn = nil
	}
}

// id is a new UUID (version 4).
func (s *slot) id() string {
	var b [16]byte
	_, _ = s.ids.Read(b[:]) // it does not fail
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var t [36]byte
	hex.Encode(t[0:8], b[0:4])
	hex.Encode(t[9:13], b[4:6])
	hex.Encode(t[14:18], b[6:8])
	hex.Encode(t[19:23], b[8:10])
	hex.Encode(t[24:], b[10:])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return string(t[:])
}

// send does one request and fills in what happened. due and free are when it
// was due and when the cap let it go.
func (s *slot) send(ctx context.Context, rec *metrics.Record, body []byte, cancelAfter time.Duration) {
	r := s.r
	rec.ID = s.id()
	if rec.Correlation == "" {
		rec.Correlation = s.id()
	}
	s.request = append(s.request[:0], r.head...)
	s.request = append(s.request, "X-Request-ID: "...)
	s.request = append(s.request, rec.ID...)
	s.request = append(s.request, "\r\nX-Correlation-ID: "...)
	s.request = append(s.request, rec.Correlation...)
	s.request = append(s.request, "\r\nContent-Length: "...)
	s.request = strconv.AppendInt(s.request, int64(len(body)), 10)
	s.request = append(s.request, "\r\n\r\n"...)
	s.request = append(s.request, body...)
	rec.BytesOut = int64(len(body))

	s.rec, s.isSSE, s.typed, s.sniff, s.done, s.tokens, s.failed = rec, false, false, false, false, 0, nil
	s.events.Reset()
	s.body = s.body[:0]
	s.text.Reset()
	s.reason.Reset()
	s.calls.Reset()

	if s.conn != nil && r.now()-s.idle > int64(time.Second) && s.conn.Stale() {
		s.drop()
	}
	rec.Start = r.now()
	limit, cancelled := r.settings.Timeout, false
	if cancelAfter >= 0 && cancelAfter.Seconds() < limit {
		limit, cancelled = cancelAfter.Seconds(), true
	}
	deadline := r.timeOf(rec.Start).Add(seconds(limit))
	var err error
	if s.conn == nil {
		dctx, stop := context.WithDeadline(ctx, deadline)
		err = s.dial(dctx)
		stop()
		rec.Connect = r.now() - rec.Start
	} else {
		rec.Reused = s.conn.Reused()
	}
	var x http1.Exchange
	if err == nil {
		x, err = s.exchange(deadline)
	}
	if errors.Is(err, http1.ErrUnread) && rec.Connect == 0 {
		// The connection was made earlier, and the server has given it up since.
		r.resent.Add(1)
		s.drop()
		begun := r.now()
		dctx, stop := context.WithDeadline(ctx, deadline)
		err = s.dial(dctx)
		stop()
		rec.Connect, rec.Reused = r.now()-begun, false
		if err == nil {
			x, err = s.exchange(deadline)
		}
	}
	s.idle = r.now()
	rec.Sent, rec.Ack, rec.Last, rec.Reads, rec.BytesIn = x.Sent, x.First, x.Last, x.Reads, x.Bytes
	rec.Finish = max(x.Last, rec.Start)
	if err != nil || !x.Keep {
		s.drop()
	}
	if s.inflate != nil {
		if ierr := s.inflate.end(s.take); err == nil {
			err = ierr
		}
		s.inflate = nil
	}
	if err == nil && s.isSSE {
		err = s.events.End(s.event)
	}
	if err != nil && s.failed == nil {
		s.failed = err
	}
	if err != nil {
		rec.Finish = max(rec.Finish, s.idle)
	}
	rec.Err = s.judge(&x, limit, cancelled && errors.Is(err, os.ErrDeadlineExceeded))
	s.keep()
}

// exchange sends the request that was made on the connection.
func (s *slot) exchange(deadline time.Time) (http1.Exchange, error) {
	if err := s.conn.SetDeadline(deadline); err != nil {
		return http1.Exchange{}, err
	}
	return s.conn.Do(s.request, s.r.now, s.part)
}

// part takes a part of the body as it was sent.
func (s *slot) part(x *http1.Exchange, part []byte, at int64) (err error) {
	s.at = at
	if !s.typed {
		s.typed = true
		if s.inflate, err = newInflater(x.Encoding); err != nil {
			return err
		}
		asked := x.Status == http.StatusOK && s.r.settings.Streaming
		s.isSSE = asked && streams(x.ContentType)
		s.sniff = asked && vague(x.ContentType)
	}
	if s.inflate != nil {
		return s.inflate.feed(part, s.take)
	}
	return s.take(part)
}

// take takes a part of the body.
func (s *slot) take(part []byte) error {
	if s.sniff && len(part) > 0 {
		s.sniff = false
		s.isSSE = beginsStream(part)
	}
	if !s.isSSE {
		if len(s.body)+len(part) > maxAnswer {
			return fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
		}
		s.body = append(s.body, part...)
		return nil
	}
	return s.events.Feed(part, s.event)
}

// streams says whether a body of a media type may be an event stream. Servers
// that name none are taken at the request's word.
func streams(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "text/event-stream"
}

// vague says that a media type leaves open what a body is: servers and proxies
// that do not know event streams name these.
func vague(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "text/plain" || kind == "application/octet-stream"
}

// beginsStream says that bytes begin an event stream.
func beginsStream(b []byte) bool {
	b = bytes.TrimLeft(b, "\r\n")
	return bytes.HasPrefix(b, []byte("data:")) || bytes.HasPrefix(b, []byte("event:")) || bytes.HasPrefix(b, []byte(":"))
}

// event takes one message of the stream.
func (s *slot) event(e sse.Event) error {
	if len(e.Data) < 2*len(openai.Done) && string(bytes.TrimSpace(e.Data)) == openai.Done {
		s.done = true
		return nil
	}
	c, err := s.parser.Parse(e.Data)
	if e.Type == "error" {
		if _, told := errors.AsType[*openai.ServerError](err); !told {
			err = openai.ErrorEvent(e.Data)
		}
	}
	if err != nil {
		// The rest of the stream is read all the same: the connection can stay.
		if s.failed == nil {
			s.failed = err
		}
		return nil
	}
	s.chunk(&c, s.at)
	return nil
}

func (s *slot) chunk(c *openai.Chunk, at int64) {
	rec := s.rec
	if c.Usage != nil {
		rec.Usage = c.Usage
	}
	if c.Finish != "" {
		rec.FinishReason = c.Finish
	}
	if !c.Tokens() {
		return
	}
	s.tokens += c.IDs
	if rec.FirstOutput < 0 && (c.Content != "" || c.Tools || c.IDs > 0 && c.Reasoning == "") {
		rec.FirstOutput = len(rec.Times)
	}
	rec.Times = append(rec.Times, at)
	s.filled()
	if s.r.keepText {
		s.text.WriteString(c.Content)
		s.reason.WriteString(c.Reasoning)
		s.calls.WriteString(c.Call)
	}
}

// filled lets the next request be sent whose turn to be filled in it is.
func (s *slot) filled() {
	if s.prefilling {
		s.prefilling = false
		<-s.r.prefill
	}
}

// keep leaves the output's text to who counts its tokens; ids need no counting.
func (s *slot) keep() {
	if s.r.tokenizer == nil && s.r.counter == nil && s.rec.Err == nil && s.tokens > 0 {
		s.rec.Output = s.tokens
		s.r.counted.Store(true)
	}
	if (s.r.tokenizer != nil || s.r.counter != nil) && s.rec.Err == nil {
		s.rec.Text, s.rec.ReasoningText = s.text.String()+s.calls.String(), s.reason.String()
	}
}

// count counts the tokens of an output: away from the goroutines that send.
func (r *runner) count(rec *metrics.Record) {
	if r.tokenizer == nil || rec.Err != nil {
		return
	}
	rec.Output = len(r.tokenizer.Encode(rec.Text))
	if rec.ReasoningText != "" {
		rec.Reasoning = len(r.tokenizer.Encode(rec.ReasoningText))
	}
}

// body is the JSON body of a turn with the conversation before it; it may use
// the memory of b.
func (r *runner) body(b []byte, history []openai.Message, t *prompts.Turn) ([]byte, error) {
	if b, ok := r.bodies[t]; ok {
		return b, nil
	}
	p := openai.Prompt{Text: t.Text, IDs: t.IDs}
	if r.request.Endpoint == openai.Chat {
		one := [1]openai.Message{{Role: "user", Content: t.Text}}
		p.Messages = one[:]
		if len(history) > 0 {
			p.Messages = append(history[:len(history):len(history)], one[0])
		}
	} else if len(history) > 0 && t.IDs == nil {
		var all strings.Builder
		for _, m := range history {
			all.WriteString(m.Content + "\n")
		}
		p.Text = all.String() + t.Text
	}
	return r.request.Append(b, p, t.Output)
}
