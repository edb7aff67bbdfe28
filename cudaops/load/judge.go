package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/openai"
)

// judge returns nil if the request succeeded, else the failure. It redacts secrets, because some servers
// repeat a wrong key in their response.
func (s *slot) judge(res *http.Response, after time.Duration, cancelled bool) *aiperf.Failure {
	f := s.failure(res, after, cancelled)
	if f != nil {
		f.Message, f.Type = s.r.secrets.String(f.Message), s.r.secrets.String(f.Type)
	}
	return f
}

// failure is judge without redaction.
func (s *slot) failure(res *http.Response, after time.Duration, cancelled bool) *aiperf.Failure {
	rec := s.rec
	if cancelled {
		rec.Cancelled = true
		return fail(499, aiperf.TypeCancelled, "Request cancelled %.3fs after being sent", after.Seconds())
	}

	if res != nil && res.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(s.body[:min(len(s.body), maxError)]))
		text = cmp.Or(text, "the answer has no body")
		if to := res.Header.Get("Location"); to != "" {
			text = "redirected to " + to + "; give the final URL"
		}
		if wait, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			text += fmt.Sprintf(" (the server asks to wait %d s)", wait)
		}
		_, kind, _ := strings.Cut(res.Status, " ")
		return fail(res.StatusCode, cmp.Or(kind, http.StatusText(res.StatusCode)), "%s", text)
	}

	if err := s.failed; err != nil {
		if f := reported(err); f != nil {
			return f
		}

		switch {
		case errors.Is(err, context.Canceled):
			rec.Cancelled, rec.Cut = true, true
			return fail(499, aiperf.TypeCancelled, "the load ended before the response did")
		case errors.Is(err, context.DeadlineExceeded):
			return fail(0, aiperf.TypeTimeout, "no complete response within %v s", s.r.settings.Timeout)
		case res != nil && errors.Is(err, io.ErrUnexpectedEOF):
			return fail(0, aiperf.TypeStream,
				"the connection ended inside the response after %d messages with output", len(rec.Times))
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fail(0, aiperf.TypeConnection, "the connection ended inside the head of the response")
		case res == nil && isClosed(err):
			return fail(0, aiperf.TypeConnection, "the server closed the connection without a response")
		case errors.Is(err, openai.ErrJSON):
			return fail(0, aiperf.TypeStream, "%s", err)
		}

		if isNet(err) {
			return fail(0, aiperf.TypeConnection, "%s", plainNet(err))
		}

		return fail(0, aiperf.TypeProtocol, "%s", err)
	}

	other := bytes.TrimSpace(s.events.Other)
	if !s.isSSE {
		if f := s.whole(res); f != nil {
			return f
		}
	} else if len(rec.Times) == 0 && len(other) > 0 {
		_, err := openai.Parse(other)
		if f := reported(err); f != nil {
			return f
		}
		return fail(0, aiperf.TypeStream, "the stream has no messages with output; it begins with %.120q", other)
	} else if s.done == 0 && s.r.settings.RequireDone {
		return fail(0, aiperf.TypeStream, noDone+" after %d messages with output", len(rec.Times))
	}

	if len(rec.Times) == 0 {
		if !s.isSSE {
			return fail(0, aiperf.TypeEmpty, "the answer has no output of the model: %.120q", s.body)
		}
		return fail(0, aiperf.TypeEmpty, "the answer has no output of the model")
	}

	return nil
}

// noDone begins the failure of a stream without [DONE].
const noDone = "the stream ended without [DONE]"

func fail(code int, kind, format string, args ...any) *aiperf.Failure {
	return &aiperf.Failure{Code: code, Type: kind, Message: fmt.Sprintf(format, args...)}
}

// reported returns the failure of an error that the server reports, or nil for other errors.
func reported(err error) *aiperf.Failure {
	if se, ok := errors.AsType[*openai.ServerError](err); ok {
		return fail(se.Code, aiperf.TypeServer, "%s", err)
	}
	return nil
}

// whole parses a response without streaming. It returns nil on success.
func (s *slot) whole(res *http.Response) *aiperf.Failure {
	if len(s.body) == 0 {
		return fail(0, aiperf.TypeEmpty, "the answer has no body")
	}

	body := s.body
	if s.r.request.Endpoint == openai.Rerank && bytes.HasPrefix(body, []byte("[")) {
		body = slices.Concat([]byte(`{"results":`), body, []byte("}")) // SGLang sends the list alone
	}

	c, err := openai.Parse(body)
	if f := reported(err); f != nil {
		return f
	}

	if err != nil {
		return fail(0, aiperf.TypeEmpty, "the answer (%s) is no JSON object: %.120q", res.Header.Get("Content-Type"),
			s.body)
	}

	if u := c.Usage; u != nil && u.Prompt < 0 && !s.r.request.Endpoint.Generates() {
		u.Prompt = u.Total // Jina's API and servers like it have the total alone
	}

	c.Done = false // of streams only
	s.chunk(&c)
	return nil
}

// isClosed reports whether the server closed the connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func isNet(err error) bool {
	_, op := errors.AsType[*net.OpError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	return op || dns || errors.Is(err, net.ErrClosed)
}

// plainNet returns the error text without local ports. They differ for each connection and would make every
// failure a separate error kind.
func plainNet(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		if op.Op == "dial" && op.Addr != nil {
			return "cannot connect to " + op.Addr.String() + ": " + op.Err.Error()
		}
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
