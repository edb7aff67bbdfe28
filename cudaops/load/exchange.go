package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
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
	r *runner

	events openai.EventReader
	parser *openai.Parser // while an event stream is read
	in     openai.Buffer  // of responses that are not read from the link itself
	link   link
	body   []byte // of a response without streaming
	text   bytes.Buffer
	reason bytes.Buffer
	calls  bytes.Buffer // of tools

	prefilling bool // the request occupies a place in runner.prefill

	// Read by other goroutines: whether a request is open, and the messages with output of the phase.
	open     atomic.Bool
	messages atomic.Int64

	// State of the current request.
	rec    *aiperf.Record
	isSSE  bool
	done   int64 // when [DONE] was read, or 0
	tokens int   // token ids in the response
	failed error

	watched context.Context // the context that interrupts the requests
}

// newID returns a random UUID (version 4).
func newID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
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

// errGivenUp is the reason to cancel a request that cancel_share chose.
var errGivenUp = errors.New("the client cancels the request")

// drainTime is how long the end of a body may take after [DONE].
const drainTime = time.Second

// send does one request and records its result in rec. If cancelAfter is 0 or more, the request is cancelled that time
// after it was sent.
func (s *slot) send(ctx context.Context, rec *aiperf.Record, to *target, body []byte, cancelAfter time.Duration) {
	r, l := s.r, &s.link
	rec.ID = newID()
	if rec.Correlation == "" {
		rec.Correlation = newID()
	}

	rec.BytesOut = int64(len(body))
	s.rec, s.isSSE, s.done, s.tokens, s.failed = rec, false, 0, 0, nil
	s.body = s.body[:0]
	s.text.Reset()
	s.reason.Reset()
	s.calls.Reset()

	res, err := s.exchange(ctx, to, body, cancelAfter)
	end, cause := r.now(), l.end()
	if rec.Reused && cause == nil {
		to.reused(err, rec.Ack > 0)
	}
	l.done(err == nil && cause == nil && !res.Close && l.in.Buffered() == 0 && to.keeps(), end)
	if l.draining && cause == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err, rec.Last = nil, s.done
	}

	err = explain(err, cause)
	if rec.Ack > 0 {
		rec.Sent = min(rec.Sent, rec.Ack) // the response may arrive before the write returns
	}

	rec.Finish = max(rec.Last, rec.Start)
	if err != nil {
		rec.Finish = max(rec.Finish, end)
		s.failed = cmp.Or(s.failed, err)
	}

	rec.Err = s.judge(res, cancelAfter, errors.Is(err, errGivenUp))
	s.keep()
}

// exchange sends the request and reads the response. If the context is cancelled, it fails with context.Canceled.
func (s *slot) exchange(ctx context.Context, to *target, body []byte, cancelAfter time.Duration) (*http.Response,
	error) {
	r, l := s.r, &s.link
	if s.watched != ctx {
		s.watched = ctx
		context.AfterFunc(ctx, func() { l.cancel(ctx) })
	}

	if err := l.begin(ctx, s.rec); err != nil {
		return nil, err
	}

	start := r.base.Add(time.Duration(s.rec.Start - r.baseUnix)) // on the monotonic clock
	if err := l.open(ctx, r, to, start.Add(seconds(r.settings.Timeout))); err != nil {
		return nil, err
	}

	if number := l.number; cancelAfter > 0 {
		defer time.AfterFunc(cancelAfter, func() { l.interrupt(number, errGivenUp) }).Stop()
	}

	head, err := l.roundTrip(body, cancelAfter == 0)
	if err != nil {
		return nil, err
	}

	if err := s.read(head); err != nil {
		return head.Response, err
	}
	return head.Response, l.content.Close() // reads the end of the body
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
		s.failed = cmp.Or(s.failed, err)
		return nil
	}

	s.chunk(&c)
	return nil
}

// end notes that the response is complete. The body has to end soon.
func (s *slot) end() {
	if s.done == 0 {
		s.done = s.rec.Last
		s.link.draining = true
	}
}

func (s *slot) chunk(c *openai.Chunk) {
	rec := s.rec
	if c.Usage != nil {
		rec.Usage = c.Usage
	}

	if c.Done {
		s.end()
	}

	if !c.Tokens() {
		return
	}

	s.tokens += c.IDs
	rec.Items += c.Items
	rec.Reasoned = rec.Reasoned || c.Reasoning != ""
	if rec.FirstOutput < 0 && (c.Content != "" || c.Tools || c.IDs > 0 && c.Reasoning == "") {
		rec.FirstOutput = len(rec.Times)
	}

	rec.Times = append(rec.Times, rec.Last)
	s.messages.Add(1)
	s.filled(rec.Last)
	if s.r.keepText {
		s.text.WriteString(c.Content)
		s.reason.WriteString(c.Reasoning)
		s.calls.WriteString(c.Call)
	}
}

// filled frees the request's place under the prefill limit at a time. It does nothing if the request has none.
func (s *slot) filled(at int64) {
	if s.prefilling {
		s.prefilling = false
		s.r.prefill <- at
	}
}

// keep stores what is needed to count output tokens: the text if there is a tokenizer, else the number of token ids
// if the server sent them.
func (s *slot) keep() {
	switch {
	case s.rec.Err != nil:
	case s.r.tokenizer != nil:
		s.rec.Text, s.rec.ReasoningText = s.text.String()+s.calls.String(), s.reason.String()
	case s.tokens > 0:
		s.rec.Output = s.tokens
		s.r.counted.Store(true)
	}
}

// count counts the output tokens with the tokenizer. The goroutine of the records calls it, so that
// counting does not delay the senders.
func (r *runner) count(rec *aiperf.Record) {
	if r.tokenizer == nil || rec.Err != nil || rec.Output >= 0 {
		return // or a generator has counted them
	}
	rec.Output = r.tokenizer.Count(rec.Text)
	if rec.ReasoningText != "" {
		rec.Reasoning = r.tokenizer.Count(rec.ReasoningText)
	}
}
