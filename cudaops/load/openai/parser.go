package openai

import (
	"bytes"
	"unsafe"
)

// A Parser parses the messages of streams. Messages of one stream usually differ only in their text, and those of
// different streams also in the id that they begin with, so it remembers the bytes before and after the text, and the
// last messages without text. A message with the same bytes around a plain string is not parsed again. The zero value
// is ready to use. It is not safe for concurrent use.
type Parser struct {
	head          []byte // {"id":"..." of the last message
	before, after []byte // between the head and the text, and behind the text
	lead          []byte // a head and before, as in the last message with text
	named         bool   // the message with the text had an id
	reasoning     bool
	others        [4]silent
	next          int // of others to replace
}

// silent is a message without text.
type silent struct {
	text  []byte // behind the head
	named bool
	chunk Chunk
}

// Limits of the messages to remember, in bytes.
const (
	maxSilent = 1 << 10
	maxSpoken = 4 << 10
)

// Parse parses one message like the function Parse.
func (p *Parser) Parse(data []byte) (Chunk, error) {
	if text, ok := between(data, p.lead, p.after); ok {
		return p.spoken(text), nil
	}

	rest := p.behindID(data)
	named := len(rest) < len(data)
	if text, ok := between(rest, p.before, p.after); ok && named == p.named {
		p.lead = append(append(p.lead[:0], data[:len(data)-len(rest)]...), p.before...)
		return p.spoken(text), nil
	}

	for i := range p.others {
		if o := &p.others[i]; len(o.text) > 0 && named == o.named && bytes.Equal(o.text, rest) {
			return o.chunk, nil
		}
	}

	c, err := Parse(data)
	switch {
	case err != nil:
	case !c.Tokens():
		if len(rest) <= maxSilent {
			o := &p.others[p.next]
			o.text, o.named, o.chunk = append(o.text[:0], rest...), named, c
			p.next = (p.next + 1) % len(p.others)
		}
	case c.Finish == "" && c.Usage == nil && !c.Tools && c.IDs == 0 && (c.Content == "") != (c.Reasoning == ""):
		p.remember(data, rest, &c)
	}

	return c, err
}

// between returns the plain text between two parts of a message.
func between(data, before, after []byte) ([]byte, bool) {
	n := len(before) + len(after)
	if n == 0 || len(data) <= n || !bytes.HasPrefix(data, before) || !bytes.HasSuffix(data, after) {
		return nil, false
	}
	text := data[len(before) : len(data)-len(after)]
	return text, plain(text)
}

// spoken returns the chunk of a message with a text.
func (p *Parser) spoken(text []byte) Chunk {
	s := unsafe.String(unsafe.SliceData(text), len(text))
	if p.reasoning {
		return Chunk{Reasoning: s}
	}
	return Chunk{Content: s}
}

// behindID returns the bytes of a message behind the id that it begins with, or all of them.
func (p *Parser) behindID(data []byte) []byte {
	if len(p.head) > 0 && bytes.HasPrefix(data, p.head) {
		return data[len(p.head):]
	}

	id, ok := bytes.CutPrefix(data, []byte(`{"id":"`))
	if n := bytes.IndexByte(id, '"'); ok && n > 0 && plain(id[:n]) {
		rest := id[n+1:]
		p.head = append(p.head[:0], data[:len(data)-len(rest)]...)
		return rest
	}
	return data
}

// remember stores the bytes of rest, which is data behind its id, around the text if the text occurs there
// once. It does not if choices were joined, or if the server sends the text twice as vLLM does, because the
// second copy would be taken as constant.
func (p *Parser) remember(data, rest []byte, c *Chunk) {
	text := c.Content + c.Reasoning
	if !plain([]byte(text)) || len(data) > maxSpoken {
		return
	}

	quoted := []byte(`"` + text + `"`)
	at := bytes.Index(rest, quoted)
	if at < 0 || bytes.LastIndex(rest, quoted) != at {
		return
	}

	// The string must be the value of the text's field and of no other field.
	probe := bytes.Clone(data)
	for i := range text {
		probe[len(data)-len(rest)+at+1+i] = '#'
	}

	again, err := Parse(probe)
	if err != nil || again.Content+again.Reasoning == text || len(again.Content) != len(c.Content) ||
		len(again.Reasoning) != len(c.Reasoning) {
		return
	}

	p.before = append(p.before[:0], rest[:at+1]...)
	p.lead = append(p.lead[:0], data[:len(data)-len(rest)+at+1]...)
	p.after = append(p.after[:0], rest[at+1+len(text):]...)
	p.named, p.reasoning = len(rest) < len(data), c.Reasoning != ""
}

// plain reports whether bytes between quotes are a non-empty JSON string without escapes.
func plain(text []byte) bool {
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			return false
		}
	}
	return len(text) > 0
}
