package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/openai"
)

// maxError limits how much of an error response is kept, in bytes.
const maxError = 2 << 10

// maxAnswer limits the size of a response without streaming, in bytes.
const maxAnswer = 64 << 20

// A slot sends one request at a time and reuses its buffers.
type slot struct {
	r   *runner
	ids *rand.ChaCha8

	events openai.EventReader
	parser openai.Parser
	in     *bufio.Reader
	link   link
	head   []byte // of the request
	body   []byte // of a response without streaming
	text   strings.Builder
	reason strings.Builder
	calls  strings.Builder // of tools

	prefilling bool // the request occupies a place in runner.prefill

	// State of the current request.
	rec    *aiperf.Record
	x      *stamps
	isSSE  bool
	done   int64       // when [DONE] was read, or 0
	drain  *time.Timer // ends a body that does not end after [DONE]
	tokens int         // token ids in the response
	failed error
}

// id returns a random UUID (version 4).
func (s *slot) id() string {
	var b [16]byte
	_, _ = s.ids.Read(b[:]) // never fails
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

// Reasons to cancel a request.
var (
	errGivenUp = errors.New("the client cancels the request")
	errDrained = errors.New("the body did not end after [DONE]")
)

// drainTime is how long the end of a body may take after [DONE].
const drainTime = time.Second

// send does one request and records its result in rec. If cancelAfter is 0 or more, the request is cancelled that time
// after it was sent.
func (s *slot) send(ctx context.Context, rec *aiperf.Record, to *target, body []byte, cancelAfter time.Duration) {
	r := s.r
	rec.ID = s.id()
	if rec.Correlation == "" {
		rec.Correlation = s.id()
	}

	rec.BytesOut = int64(len(body))
	x := &stamps{now: r.now, head: maxHead}
	s.rec, s.x, s.isSSE, s.done, s.tokens, s.failed = rec, x, false, 0, 0, nil
	s.body = s.body[:0]
	s.text.Reset()
	s.reason.Reset()
	s.calls.Reset()

	rec.Start = r.now()
	s.head = appendHead(s.head[:0], to, rec.ID, rec.Correlation, len(body))
	res, err := s.exchange(ctx, to, body, cancelAfter)
	if s.drain != nil {
		s.drain.Stop()
		s.drain = nil
	}

	end, cause := r.now(), x.end()
	if cause != nil && errors.Is(cause, errDrained) {
		err, x.last = nil, s.done
	}

	s.link.done(err == nil && cause == nil && res != nil && !res.Close && s.link.in.Buffered() == 0)
	err = explain(err, cause)
	if rec.Reused = x.reused; !rec.Reused {
		rec.Connect = max(x.connected-rec.Start, 0)
	}

	rec.Sent, rec.Ack = x.sent, x.first
	rec.Last, rec.Reads, rec.BytesIn = max(x.last, rec.Ack), x.reads, x.bytes
	rec.Finish = max(rec.Last, rec.Start)
	if err != nil {
		rec.Finish = max(rec.Finish, end)
		if s.failed == nil {
			s.failed = err
		}
	}

	rec.Err = s.judge(res, cancelAfter, errors.Is(err, errGivenUp))
	s.keep()
}

// exchange sends the request and reads the response. If the context is cancelled, it fails with context.Canceled.
func (s *slot) exchange(ctx context.Context, to *target, body []byte, cancelAfter time.Duration) (*http.Response,
	error) {
	r, x := s.r, s.x
	defer context.AfterFunc(ctx, func() { x.interrupt(context.Canceled) })()
	deadline := r.timeOf(s.rec.Start).Add(seconds(r.settings.Timeout))
	dialling, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := s.link.open(dialling, r, to, x); err != nil {
		return nil, err
	}

	if cancelAfter > 0 {
		defer time.AfterFunc(cancelAfter, func() { x.interrupt(errGivenUp) }).Stop()
	}

	res, err := s.link.roundTrip(s.head, body, deadline, x, cancelAfter == 0)
	if err != nil {
		return nil, err
	}

	if err := s.read(res); err != nil {
		return res, err
	}
	return res, res.Body.Close() // reads the end of the body
}

// event handles one message of the stream. It returns nil even for bad messages and records the first error
// in s.failed.
func (s *slot) event(e openai.Event) error {
	if len(e.Data) < 2*len(openai.Done) && string(bytes.TrimSpace(e.Data)) == openai.Done {
		s.end()
		return nil
	}

	if s.done > 0 {
		return nil // not part of the response
	}

	c, err := s.parser.Parse(e.Data)
	if e.Type == "error" {
		if _, told := errors.AsType[*openai.ServerError](err); !told {
			err = openai.ErrorEvent(e.Data)
		}
	}

	if err != nil {
		// Read the rest of the stream, so that the connection can be reused.
		if s.failed == nil {
			s.failed = err
		}
		return nil
	}

	s.chunk(&c, s.x.last)
	return nil
}

// end notes that the response is complete. The body has to end soon.
func (s *slot) end() {
	if s.done == 0 {
		s.done = s.x.last
		x := s.x
		s.drain = time.AfterFunc(drainTime, func() { x.interrupt(errDrained) })
	}
}

func (s *slot) chunk(c *openai.Chunk, at int64) {
	rec := s.rec
	if c.Usage != nil {
		rec.Usage = c.Usage
	}

	if c.Finish != "" {
		rec.FinishReason = c.Finish
	}

	if c.Done {
		s.end()
	}

	if !c.Tokens() {
		return
	}

	s.tokens += c.IDs
	rec.Items += c.Items
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

// filled frees the request's place under the prefill limit. It does nothing if the request has none.
func (s *slot) filled() {
	if s.prefilling {
		s.prefilling = false
		<-s.r.prefill
	}
}

// keep stores what is needed to count output tokens: the number of token ids if the server sent them, or
// the text if a tokenizer or the server counts.
func (s *slot) keep() {
	if s.r.tokenizer == nil && s.r.counter == nil && s.rec.Err == nil && s.tokens > 0 {
		s.rec.Output = s.tokens
		s.r.counted.Store(true)
	}
	if (s.r.tokenizer != nil || s.r.counter != nil) && s.rec.Err == nil {
		s.rec.Text, s.rec.ReasoningText = s.text.String()+s.calls.String(), s.reason.String()
	}
}

// count counts the output tokens with the tokenizer. The goroutine of the records calls it, so that
// counting does not delay the senders.
func (r *runner) count(rec *aiperf.Record) {
	if r.tokenizer == nil || rec.Err != nil {
		return
	}
	rec.Output = len(r.tokenizer.Encode(rec.Text))
	if rec.ReasoningText != "" {
		rec.Reasoning = len(r.tokenizer.Encode(rec.ReasoningText))
	}
}
