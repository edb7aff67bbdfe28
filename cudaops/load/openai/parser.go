package openai

import (
	"bytes"
	"unsafe"
)

// A Parser parses the messages of streams. Messages of one stream usually differ only in their text, so it
// remembers the bytes before and after the text. A message with the same bytes around a plain string is not
// parsed again. The zero value is ready to use. It is not safe for concurrent use.
type Parser struct {
	before, after []byte
	reasoning     bool
}

// Parse parses one message like the function Parse.
func (p *Parser) Parse(data []byte) (Chunk, error) {
	if n := len(p.before) + len(p.after); n > 0 && len(data) > n && bytes.HasPrefix(data, p.before) &&
		bytes.HasSuffix(data, p.after) {
		if text := data[len(p.before) : len(data)-len(p.after)]; plain(text) {
			s := unsafe.String(unsafe.SliceData(text), len(text))
			if p.reasoning {
				return Chunk{Reasoning: s}, nil
			}
			return Chunk{Content: s}, nil
		}
	}

	c, err := Parse(data)
	if err == nil && c.Finish == "" && c.Usage == nil && !c.Tools && c.IDs == 0 &&
		(c.Content == "") != (c.Reasoning == "") {
		p.remember(data, &c)
	}

	return c, err
}

// remember stores the bytes around the text if the text occurs exactly once in data. It does not if choices
// were joined, or if the server sends the text twice as vLLM does, because the second copy would be taken
// as constant.
func (p *Parser) remember(data []byte, c *Chunk) {
	text := c.Content + c.Reasoning
	if !plain([]byte(text)) || len(data) > 4096 {
		return
	}

	quoted := []byte(`"` + text + `"`)
	at := bytes.Index(data, quoted)
	if at < 0 || bytes.LastIndex(data, quoted) != at {
		return
	}

	// The string must be the value of the text's field and of no other field.
	probe := bytes.Clone(data)
	for i := range text {
		probe[at+1+i] = '#'
	}

	again, err := Parse(probe)
	if err != nil || again.Content+again.Reasoning == text || len(again.Content) != len(c.Content) ||
		len(again.Reasoning) != len(c.Reasoning) {
		return
	}

	p.before = append(p.before[:0], data[:at+1]...)
	p.after = append(p.after[:0], data[at+1+len(text):]...)
	p.reasoning = c.Reasoning != ""
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
