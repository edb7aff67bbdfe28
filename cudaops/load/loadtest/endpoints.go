package loadtest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// other responds to a request of the responses, embeddings or rerank API.
func (s *Server) other(c net.Conn, header http.Header, body []byte, kind string) bool {
	root := gjson.ParseBytes(body)
	prompt := root.Get("input")
	if kind == "rerank" {
		prompt = root.Get("documents")
	}

	a := &ask{id: header.Get("X-Request-ID"), number: int(s.number.Add(1)), received: time.Now(), truth: -1,
		model: root.Get("model").String(), stream: root.Get("stream").Bool(),
		wanted: int(root.Get("max_output_tokens").Int())}
	a.began = a.received
	if a.tokens = a.wanted; a.tokens == 0 {
		a.tokens = s.opts.Tokens
	}

	items := 0
	prompt.ForEach(func(_, e gjson.Result) bool {
		items++
		text := e.String()
		if e.IsObject() {
			text = e.Get("content").String()
		}
		a.prompt += wordsOf(text)
		return true
	})
	a.prompt += wordsOf(root.Get("query").String())
	if s.opts.Truth {
		s.note(a, header, body)
	}

	switch kind {
	case "embeddings", "rerank":
		s.until(a, 0)
		s.sent(a, time.Now(), items)
		field, item := "data", `{"object":"embedding","index":%d,"embedding":[0.5,-0.5]}`
		if kind == "rerank" {
			field, item = "results", `{"index":%d,"relevance_score":0.5}`
		}

		var list []string
		for i := range items {
			list = append(list, fmt.Sprintf(item, i))
		}
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%[1]d}`, a.prompt)
		return plain(
			c,
			200,
			"application/json",
			fmt.Sprintf(`{"object":"list","model":%q,%q:[%s],"usage":%s}`, a.model, field,
				strings.Join(list, ","), usage),
		)
	}

	usage := fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}`, a.prompt, a.tokens, a.prompt+a.tokens)
	if !a.stream {
		s.until(a, a.tokens-1)
		s.sent(a, time.Now(), a.tokens)
		text := ""
		for i := range a.tokens {
			text += token(i)
		}
		output := fmt.Sprintf(`[{"type":"message","content":[{"type":"output_text","text":%q}]}]`, text)
		return plain(c, 200, "application/json", `{"object":"response","status":"completed","output":`+output+
			`,"usage":`+usage+`}`)
	}

	w := &writer{c: c}
	w.head()
	w.message(`{"type":"response.created","response":{"status":"in_progress","usage":null,"error":null}}`)
	for i := range a.tokens {
		s.until(a, i)
		s.sent(a, time.Now(), 1)
		w.message(
			fmt.Sprintf(`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":%q}`, token(i)),
		)
	}

	w.message(`{"type":"response.output_text.done","text":"all"}`)
	w.message(
		`{"type":"response.completed","response":{"status":"completed","error":null,"output":[],"usage":` + usage + `}}`,
	)
	w.end()
	return w.err == nil
}
