package loadtest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load/openai"
)

// words are the tokens of responses. A token is a word with a leading space.
var words = []string{" alpha", " bravo", " charlie", " delta", " echo", " foxtrot", " golf", " hotel"}

func token(i int) string { return words[i%len(words)] }

// answer sends the response to a. It returns false if the connection must be closed.
func (s *Server) answer(c net.Conn, a *ask) bool {
	switch a.fault.Kind {
	case FaultStatus:
		return plain(c, a.fault.Status, "application/json", fmt.Sprintf(
			`{"error":{"message":"mock fault %d","type":"%s","code":%d}}`, a.fault.Status,
			http.StatusText(a.fault.Status), a.fault.Status))

	case FaultHTML:
		return plain(c, 200, "text/html", "<html><body>Sign in to the portal</body></html>")

	case FaultEmpty:
		kind := "application/json"
		if a.stream {
			kind = "text/event-stream"
		}
		return plain(c, 200, kind, "")

	case FaultReset:
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // otherwise the connection would be closed orderly
		}
		return false

	case FaultSlowHead:
		time.Sleep(a.fault.Delay)

	case FaultShort:
		a.tokens = max(1, a.tokens/2)
	}

	if !a.stream {
		return s.whole(c, a)
	}

	w := &writer{c: c}
	s.stream(w, a)
	return w.err == nil && !w.ended
}

// message returns a response, or a message of a stream, with at most one choice. more are further fields.
func (a *ask) message(choice, more string) string {
	id, object := "cmpl-1", "text_completion"
	if a.endpoint == openai.Chat {
		id, object = "chatcmpl-1", "chat.completion"
		if a.stream {
			object += ".chunk"
		}
	}
	return fmt.Sprintf(`{"id":%q,"object":%q,"created":1,"model":%q,"choices":[%s]%s}`, id, object, a.model, choice, more)
}

// content returns a message with token i.
func (s *Server) content(a *ask, i int) string {
	q := strconv.Quote(token(i))
	switch {
	case a.endpoint == openai.Responses:
		return `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":` + q + `}`
	case s.opts.SkipTokenizer:
		return a.message(fmt.Sprintf(`{"index":0,"text":"","finish_reason":null%s}`, s.ids(a, i, i+1)), "")
	case a.endpoint == openai.Completions:
		return a.message(fmt.Sprintf(`{"index":0,"text":%s,"finish_reason":null}`, q), "")
	}

	return a.message(fmt.Sprintf(`{"index":0,"delta":{"content":%s},"finish_reason":null}`, q), "")
}

// ids returns the JSON field with the ids of tokens i to j-1, or "" if the request does not ask for ids.
func (s *Server) ids(a *ask, i, j int) string {
	if !a.ids {
		return ""
	}

	var list []string
	for k := i; k < j; k++ {
		list = append(list, strconv.Itoa(1000+k))
	}
	return `,"token_ids":[` + strings.Join(list, ",") + `]`
}

func (a *ask) finish(reason string) string {
	output := `"text":""`
	if a.endpoint == openai.Chat {
		output = `"delta":{}`
	}
	return a.message(fmt.Sprintf(`{"index":0,%s,"finish_reason":%q}`, output, reason), "")
}

func (a *ask) usageObject() string {
	n := a.tokens
	if a.fault.Kind == FaultWrongUsage {
		n += 10
	}

	switch a.endpoint {
	case openai.Chat, openai.Completions:
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, a.prompt, n, a.prompt+n)
	case openai.Responses:
		return fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}`, a.prompt, n, a.prompt+n)
	}
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%[1]d}`, a.prompt)
}

// list returns the start of a response with a list of items, each with its index.
func (a *ask) list(field, item string) string {
	var list []string
	for i := range a.tokens {
		list = append(list, fmt.Sprintf(item, i))
	}
	return fmt.Sprintf(`{"object":"list","model":%q,%q:[%s]`, a.model, field, strings.Join(list, ","))
}

// whole sends a response without streaming at the time of the last token, or of the first if it has none.
func (s *Server) whole(c net.Conn, a *ask) bool {
	last := 0
	if a.endpoint.Generates() {
		last = a.tokens - 1
	}
	s.until(a, last)

	var text strings.Builder
	for k := range a.tokens {
		text.WriteString(token(k))
	}

	reason := "length"
	if a.fault.Kind == FaultShort {
		reason = "stop"
	}

	if a.fault.Kind == FaultNoTokens {
		text.Reset()
	}

	ids := ""
	if s.opts.SkipTokenizer {
		text.Reset()
		ids = s.ids(a, 0, a.tokens)
	}

	usage := `,"usage":` + a.usageObject()
	var body string
	switch a.endpoint {
	case openai.Chat:
		body = a.message(fmt.Sprintf(`{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":%q}`,
			text.String(), reason), usage)
	case openai.Completions:
		body = a.message(fmt.Sprintf(`{"index":0,"text":%q,"finish_reason":%q%s}`, text.String(), reason, ids), usage)
	case openai.Responses:
		body = fmt.Sprintf(`{"object":"response","status":"completed","output":[{"type":"message",`+
			`"content":[{"type":"output_text","text":%q}]}]%s}`, text.String(), usage)
	case openai.Embeddings:
		body = a.list("data", `{"object":"embedding","index":%d,"embedding":[0.5,-0.5]}`) + usage + "}"
	case openai.Rerank:
		body = a.list("results", `{"index":%d,"relevance_score":0.5}`) + usage + "}"
	}

	switch a.fault.Kind {
	case FaultBadJSON:
		body = body[:len(body)/2]
	case FaultErrorEvent:
		body = `{"error":{"message":"engine died","type":"InternalServerError","code":500}}`
	case FaultCut, FaultEOF, FaultHang:
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body[:len(body)/2])
		if a.fault.Kind == FaultHang {
			_, _ = io.Copy(io.Discard, c) // until the client closes the connection
		}
		return false
	}

	s.sent(a, time.Now(), a.tokens)
	return plain(c, 200, "application/json", body)
}

// until waits until token i is due.
func (s *Server) until(a *ask, i int) {
	d := s.opts.TTFT + time.Duration(i)*s.opts.ITL
	if n := s.opts.TTFTSpread; n > 0 {
		// A pseudo-random number that is the same in every run.
		d += time.Duration(int64(uint64(a.number)*0x9E3779B97F4A7C15>>11)%int64(2*n+1)) - n
	}

	if wait := time.Until(a.began.Add(d)); wait > 0 {
		time.Sleep(wait)
	}
}

func (s *Server) stream(w *writer, a *ask) {
	w.head()
	if a.endpoint == openai.Responses {
		w.message(`{"type":"response.created","response":{"status":"in_progress","usage":null,"error":null}}`)
	}

	tokens := a.tokens
	f := a.fault
	if f.Kind == FaultNoTokens {
		tokens = 0
	}

	for i := 0; i < tokens && w.err == nil; i++ {
		if i >= f.After {
			switch f.Kind {
			case FaultErrorEvent:
				w.message(`{"error":{"message":"engine died","type":"InternalServerError","code":500}}`)
				w.message("[DONE]")
				w.end()
				return

			case FaultBadJSON:
				w.message(`{"id":"chatcmpl-1","choices":[{"index":0,"del`)
				w.end()
				return

			case FaultCut:
				w.ended = true
				return

			case FaultEOF:
				w.end()
				return

			case FaultHang:
				_, _ = io.Copy(io.Discard, w.c) // until the client closes the connection
				w.ended = true
				return

			case FaultBadChunk:
				w.raw("zz\r\n")
				w.ended = true
				return
			}
		}

		s.until(a, i)
		text := s.content(a, i)
		s.sent(a, time.Now(), 1)
		w.message(text)
	}

	if a.endpoint == openai.Responses {
		w.message(`{"type":"response.output_text.done","text":"all"}`)
		w.message(`{"type":"response.completed","response":{"status":"completed","error":null,"output":[],"usage":` +
			a.usageObject() + `}}`)
		w.end()
		return
	}

	reason := "length"
	if f.Kind == FaultShort {
		reason = "stop"
	}

	w.message(a.finish(reason))
	if a.usage {
		w.message(a.message("", `,"usage":`+a.usageObject()))
	}

	if f.Kind != FaultNoDone {
		w.message("[DONE]")
	}

	w.end()
}

// A writer sends one stream.
type writer struct {
	c     net.Conn
	ended bool // close the connection after the stream
	err   error
}

func (w *writer) head() {
	w.raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
}

func (w *writer) raw(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.c, text)
	}
}

// message sends one event.
func (w *writer) message(data string) {
	text := "data: " + data + "\n\n"
	w.raw(fmt.Sprintf("%x\r\n%s\r\n", len(text), text))
}

// end terminates the chunked body.
func (w *writer) end() { w.raw("0\r\n\r\n") }
