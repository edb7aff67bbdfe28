// Package openai encodes requests to OpenAI-compatible endpoints and parses their responses, streamed or
// whole.
package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Endpoint is the type of an API endpoint.
type Endpoint string

// Endpoint types.
const (
	Chat        Endpoint = "chat"
	Completions Endpoint = "completions"
	Responses   Endpoint = "responses"
	Embeddings  Endpoint = "embeddings"
	Rerank      Endpoint = "rerank"
)

// Version is the start of the URL paths of the endpoint types, and paths are their ends.
const Version = "/v1"

var paths = map[Endpoint]string{Chat: "/chat/completions", Completions: "/completions", Responses: "/responses",
	Embeddings: "/embeddings", Rerank: "/rerank"}

// Endpoints returns the names of all endpoint types.
func Endpoints() []string {
	return []string{string(Chat), string(Completions), string(Responses), string(Embeddings), string(Rerank)}
}

// Path returns the endpoint's default URL path.
func (e Endpoint) Path() string { return Version + paths[e] }

// Split returns the part of a URL path before the API, and the endpoint whose path it ends in, or "".
func Split(path string) (base string, e Endpoint) {
	base = strings.TrimSuffix(path, "/")
	for _, name := range Endpoints() { // chat before completions, which is its end
		if before, ok := strings.CutSuffix(base, paths[Endpoint(name)]); ok {
			return strings.TrimSuffix(before, Version), Endpoint(name)
		}
	}
	return strings.TrimSuffix(base, Version), ""
}

// Generates reports whether responses have output tokens. Others have items: embeddings or ranked documents.
func (e Endpoint) Generates() bool { return e != Embeddings && e != Rerank }

// Text appends JSON to b: a string, or a list of token ids.
type Text func(b []byte) []byte

// String returns the Text of a string.
func String(s string) Text {
	return func(b []byte) []byte { return AppendString(b, s) }
}

// Join returns the Text of strings with a line end between them.
func Join(list []Text) Text {
	return func(b []byte) []byte {
		for i, t := range list {
			n := len(b)
			if b = t(b); i > 0 {
				copy(b[n-1:], `\n`) // replaces two quotes
			}
		}
		return b
	}
}

// Message is one message of a conversation.
type Message struct {
	Role    string
	Content Text

	// Images are data URLs that follow the text.
	Images []string

	// Raw is the whole message as JSON. It replaces the other fields if it is not nil.
	Raw json.RawMessage
}

// Prompt is the prompt of a request: messages for Chat and Responses, a text for Completions, documents for Embeddings,
// and documents with a query, which is Text, for Rerank.
type Prompt struct {
	Messages  []Message
	Tools     json.RawMessage
	Text      Text
	Documents []Text
}

// Request is the body of a request without its prompt and length.
type Request struct {
	Endpoint Endpoint
	Model    string
	Stream   bool
	// Extra is merged into the body and overrides the other fields.
	Extra map[string]json.RawMessage
}

// reserved are the fields that extra inputs must not override.
var reserved = []string{"messages", "prompt", "input", "query", "documents", "model", "stream"}

// CheckExtra returns an error if an extra input is not JSON or overrides a field that the plan sets.
func CheckExtra(extra map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if slices.Contains(reserved, name) {
			return fmt.Errorf("extra inputs set %q, which the plan sets itself; use its own option for that", name)
		}
		if n := strings.TrimSpace(string(extra[name])); name == "n" && n != "1" {
			return fmt.Errorf("extra input n is %s; a request has one response, so send more requests instead", n)
		}
		if !json.Valid(extra[name]) {
			return fmt.Errorf("extra input %q is no JSON: %.100q", name, extra[name])
		}
	}
	return nil
}

// Append appends the JSON body for a prompt and a number of output tokens to b. 0 tokens sets no limit. It does not
// allocate for plain text if b has enough capacity, because bodies are built while the load runs.
func (r Request) Append(b []byte, p Prompt, tokens int) ([]byte, error) {
	begun := len(b)
	name := func(name string) bool {
		if _, ok := r.Extra[name]; ok {
			return false
		}
		sep := byte(',')
		if len(b) == begun {
			sep = '{'
		}
		b = append(b, sep, '"')
		b = append(b, name...)
		b = append(b, '"', ':')
		return true
	}

	list := func(field string, n int, add func(i int)) {
		name(field)
		b = append(b, '[')
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			add(i)
		}
		b = append(b, ']')
	}

	limit := "max_tokens"
	switch {
	case r.Endpoint == Chat || r.Endpoint == Responses:
		field := "messages"
		if limit = "max_completion_tokens"; r.Endpoint == Responses {
			field, limit = "input", "max_output_tokens"
		}

		list(field, len(p.Messages), func(i int) { b = p.Messages[i].append(b, r.Endpoint) })
		if p.Tools != nil && name("tools") {
			b = append(b, p.Tools...)
		}

	case r.Endpoint == Embeddings || r.Endpoint == Rerank:
		field := "input"
		if r.Endpoint == Rerank {
			field = "documents"
			name("query")
			b = p.Text(b)
		}

		list(field, len(p.Documents), func(i int) { b = p.Documents[i](b) })

	default:
		name("prompt")
		b = p.Text(b)
	}

	name("model")
	b = AppendString(b, r.Model)
	if r.Endpoint.Generates() {
		name("stream")
		b = strconv.AppendBool(b, r.Stream)
	}

	// Extra inputs with a limit under any name override ours.
	limited := slices.ContainsFunc([]string{"max_tokens", "max_completion_tokens", "max_output_tokens"},
		func(n string) bool { _, ok := r.Extra[n]; return ok })
	if tokens > 0 && r.Endpoint.Generates() && !limited {
		name(limit)
		b = strconv.AppendInt(b, int64(tokens), 10)
	}

	if len(r.Extra) > 0 {
		for _, key := range slices.Sorted(maps.Keys(r.Extra)) {
			b = append(AppendString(append(b, ','), key), ':')
			raw := bytes.NewBuffer(b)
			if err := json.Compact(raw, r.Extra[key]); err != nil {
				return nil, fmt.Errorf("extra input %s: %w", key, err)
			}
			b = raw.Bytes()
		}
	}

	if r.Stream && r.Endpoint != Responses && name("stream_options") {
		b = append(b, `{"include_usage":true}`...)
	}

	return append(b, '}'), nil
}

// append appends the JSON of a message.
func (m *Message) append(b []byte, e Endpoint) []byte {
	if m.Raw != nil {
		return append(b, m.Raw...)
	}

	b = AppendString(append(b, `{"role":`...), m.Role)
	b = append(b, `,"content":`...)
	if len(m.Images) == 0 {
		return append(m.Content(b), '}')
	}

	text, image, end := `[{"type":"text","text":`, `},{"type":"image_url","image_url":{"url":`, `}`
	if e == Responses {
		text, image, end = `[{"type":"input_text","text":`, `},{"type":"input_image","image_url":`, ``
	}

	b = m.Content(append(b, text...))
	for _, url := range m.Images {
		b = append(AppendString(append(b, image...), url), end...)
	}
	return append(b, `}]}`...)
}

// AppendString appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
func AppendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error reports such bytes
	return b
}

// Marshal is json.Marshal without HTML escapes, which would change the size of the prompt.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// ParseExtra parses extra inputs in AIPerf's forms: name:value, or a JSON object with several.
func ParseExtra(text string) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return nil, fmt.Errorf("extra input %q: %w", text, err)
		}
		return out, nil
	}

	name, value, ok := strings.Cut(text, ":")
	if !ok || name == "" {
		return nil, fmt.Errorf("extra input %q: it must be name:value or a JSON object", text)
	}

	raw := json.RawMessage(strings.TrimSpace(value))
	if !json.Valid(raw) {
		quoted, err := Marshal(value)
		if err != nil {
			return nil, err
		}
		raw = quoted
	}

	out[name] = raw
	return out, nil
}
