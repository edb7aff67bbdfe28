// Package openai has the bodies of the OpenAI-compatible endpoints: requests as
// they are sent, and answers, streamed or whole, as they are read.
package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Endpoint is what is asked for.
type Endpoint string

// Endpoints.
const (
	Chat        Endpoint = "chat"
	Completions Endpoint = "completions"
)

// Endpoints lists them.
func Endpoints() []string { return []string{string(Chat), string(Completions)} }

// Path is where servers have the endpoint.
func (e Endpoint) Path() string {
	if e == Completions {
		return "/v1/completions"
	}
	return "/v1/chat/completions"
}

// Message is one of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Prompt is what a request asks: messages for Chat, text or token ids for
// Completions.
type Prompt struct {
	Messages []Message
	Text     string
	IDs      []int
}

// Request is the body of a request without its prompt and length.
type Request struct {
	Endpoint Endpoint
	Model    string
	Stream   bool
	// Extra is merged into the body as it is and wins over what is set here.
	Extra map[string]json.RawMessage
}

// reserved are fields that make a request what was planned.
var reserved = []string{"messages", "prompt", "model", "stream"}

// CheckExtra refuses extra inputs that would change what is measured behind
// the plan's back.
func CheckExtra(extra map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if slices.Contains(reserved, name) {
			return fmt.Errorf("extra inputs set %q, which the plan sets itself; use its own option for that", name)
		}
	}
	return nil
}

// Body is the JSON body for a prompt and a number of output tokens, 0 for the
// server's choice.
func (r Request) Body(p Prompt, tokens int) ([]byte, error) {
	var b bytes.Buffer
	field := func(name string, v any) error {
		if _, ok := r.Extra[name]; ok {
			return nil
		}
		text, err := marshal(v)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		sep := byte(',')
		if b.Len() == 0 {
			sep = '{'
		}
		b.WriteByte(sep)
		b.WriteString(`"` + name + `":`)
		b.Write(text)
		return nil
	}
	var err error
	limit := "max_completion_tokens"
	switch {
	case r.Endpoint == Chat:
		err = field("messages", p.Messages)
	case p.IDs != nil:
		limit, err = "max_tokens", field("prompt", p.IDs)
	default:
		limit, err = "max_tokens", field("prompt", p.Text)
	}
	if err == nil {
		err = field("model", r.Model)
	}
	if err == nil {
		err = field("stream", r.Stream)
	}
	// An own limit of the same meaning under the other name wins too.
	_, other := r.Extra["max_tokens"]
	_, same := r.Extra["max_completion_tokens"]
	if err == nil && tokens > 0 && !other && !same {
		err = field(limit, tokens)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Extra)) {
		if err == nil {
			err = (Request{}).appendRaw(&b, name, r.Extra[name])
		}
	}
	if err == nil && r.Stream {
		err = field("stream_options", json.RawMessage(`{"include_usage":true}`))
	}
	if err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (Request) appendRaw(b *bytes.Buffer, name string, raw json.RawMessage) error {
	key, err := marshal(name)
	if err != nil {
		return err
	}
	b.WriteByte(',')
	b.Write(key)
	b.WriteByte(':')
	return json.Compact(b, raw)
}

// marshal is json.Marshal without HTML escapes: servers count bytes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// ParseExtra reads one extra input in AIPerf's forms: name:value, or a JSON
// object with several.
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
		quoted, err := marshal(value)
		if err != nil {
			return nil, err
		}
		raw = quoted
	}
	out[name] = raw
	return out, nil
}
