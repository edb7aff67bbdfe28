package openai

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestBodies(t *testing.T) {
	extra := map[string]json.RawMessage{"ignore_eos": json.RawMessage("true"), "min_tokens": json.RawMessage(" 200")}
	for _, c := range []struct {
		name   string
		r      Request
		p      Prompt
		tokens int
		want   string
	}{
		{"chat", Request{Endpoint: Chat, Model: "m", Stream: true},
			Prompt{Messages: []Message{{Role: "user", Content: String("a <b> & \u00e9")}}}, 8,
			`{"messages":[{"role":"user","content":"a <b> & ` + "\u00e9" +
				`"}],"model":"m","stream":true,"max_completion_tokens":8,"stream_options":{"include_usage":true}}`},
		{"completions", Request{Endpoint: Completions, Model: "m"}, Prompt{Text: String("x")}, 8,
			`{"prompt":"x","model":"m","stream":false,"max_tokens":8}`},
		{"history", Request{Endpoint: Completions, Model: "m"},
			Prompt{Text: Join([]Text{String(`a"`), String(""), String("b")})}, 0,
			`{"prompt":"a\"\n\nb","model":"m","stream":false}`},
		{"extra", Request{Endpoint: Completions, Model: "m", Extra: extra}, Prompt{Text: String("x")}, 8,
			`{"prompt":"x","model":"m","stream":false,"max_tokens":8,"ignore_eos":true,"min_tokens":200}`},
		{"extra wins", Request{Endpoint: Chat, Model: "m", Stream: true,
			Extra: map[string]json.RawMessage{"max_tokens": json.RawMessage("3"), "stream_options": json.RawMessage("{}")}},
			Prompt{Messages: []Message{{Role: "user",
				Content: String("x")}}}, 8, `{"messages":[{"role":"user","content":"x"}],"model":"m","stream":true,"max_tokens":3,"stream_options":{}}`},
	} {
		got, err := c.r.Append(nil, c.p, c.tokens)
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
	if err := CheckExtra(map[string]json.RawMessage{"messages": nil}); err == nil {
		t.Error("messages may be replaced")
	}
}

func TestExtraForms(t *testing.T) {
	for text, want := range map[string]string{
		"ignore_eos:true": `{"ignore_eos":true}`, "min_tokens:200": `{"min_tokens":200}`,
		"stop:the end":    `{"stop":"the end"}`,
		`{"a":{"b":[1]}}`: `{"a":{"b":[1]}}`,
	} {
		m, err := ParseExtra(text)
		got, _ := json.Marshal(m)
		if err != nil || string(got) != want {
			t.Errorf("%s gave %s (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"x", ":1", "{bad"} {
		if _, err := ParseExtra(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		text, content, reasoning, finish string
		tokens                           bool
	}{
		{`{"choices":[{"delta":{"content":"a"}}]}`, "a", "", "", true},
		{`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, "", "", "", false},
		{`{"choices":[{"delta":{"role":"assistant","content":null}}]}`, "", "", "", false},
		{`{"choices":[{"delta":{"reasoning_content":"r","reasoning":"r"}}]}`, "", "r", "", true},
		{`{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`, "", "", "", true},
		{`{"choices":[{"delta":{"tool_calls":[]}}]}`, "", "", "", false},
		{`{"choices":[{"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null}}]}`, "", "", "",
			false}, // as SGLang begins and ends its streams
		{`{"choices":[{"text":"t","finish_reason":"stop"}]}`, "t", "", "stop", true},
		{`{"choices":[{"message":{"content":"whole"},"finish_reason":"length"}]}`, "whole", "", "length", true},
		{`{"choices":[{"text":"a"},{"text":"b"}]}`, "ab", "", "", true},
		{`{"choices":[]}`, "", "", "", false},
		{`{"choices":[{"text":"\u00e9\ud83d\ude00"}]}`, "\u00e9\U0001f600", "", "", true},
	} {
		got, err := Parse([]byte(c.text))
		if err != nil || got.Content != c.content || got.Reasoning != c.reasoning || got.Finish != c.finish ||
			got.Tokens() != c.tokens {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
	}
	c, err := Parse([]byte(`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}`))
	if err != nil || *c.Usage != (Usage{Prompt: 5, Completion: 7, Total: 12, Reasoning: -1, Cached: 4}) {
		t.Errorf("%+v, %v", c.Usage, err)
	}
	if c, _ := Parse([]byte(`{"usage":{"completion_tokens":7,"reasoning_tokens":3}}`)); c.Usage.Reasoning != 3 {
		t.Errorf("SGLang's usage is %+v", c.Usage)
	}
	if c, _ := Parse([]byte(`{"usage":null}`)); c.Usage != nil {
		t.Error("null is a usage")
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"error":{"message":"died","type":"E","code":503}}`: "E: died",
		`{"error":"plain"}`: "plain",
		`{"object":"error","message":"old","code":40001}`: "old",
		`{"error":{}}`: "{}",
	} {
		_, err := Parse([]byte(text))
		se, ok := errors.AsType[*ServerError](err)
		if !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v", text, err)
		}
		if strings.Contains(text, "503") && se.Code != 503 {
			t.Errorf("code %d", se.Code)
		}
	}
	for _, text := range []string{"", "{", "[]", "1", `{"choices":[{"delta":{"content":"a"}}`, "<html>", `{"a":1}x`} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrJSON) {
			t.Errorf("%q gave %v", text, err)
		}
	}
	if _, err := Parse([]byte(`{"error":null,"choices":[]}`)); err != nil {
		t.Errorf("a null error is %v", err)
	}
}

// FuzzParse checks that arbitrary bytes are parsed or rejected, and that retained strings do not alias the
// message.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`{"error":{"message":"x","code":"7"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err == nil && !json.Valid(data) {
			t.Errorf("%q passes and is no JSON", data)
		}
		finish, text := c.Finish, ""
		if err != nil {
			text = err.Error()
		}
		keep, keepText := strings.Clone(finish), strings.Clone(text)
		for i := range data {
			data[i] = 'X'
		}
		if finish != keep || text != keepText {
			t.Error("it changed with the bytes")
		}
	})
}

// FuzzParser checks that the cached parser returns the same results as Parse.
func FuzzParser(f *testing.F) {
	f.Add(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"}}]}`)
	f.Add(`{"choices":[{"delta":{"content":"a"}}],"id":"a"}`, `{"choices":[{"delta":{"content":"b"}}],"id":"a"}`)
	f.Add(`{"id":"a","choices":[{"text":"a"}]}`, `{"id":"b","choices":[{"text":"a"}]}`)
	f.Add(`{"choices":[{"delta":{"reasoning_content":"r","reasoning":"r"}}]}`,
		`{"choices":[{"delta":{"reasoning_content":"s","reasoning":"r"}}]}`)
	f.Add(`{"choices":[{"text":"x"}]}`, `{"choices":[{"text":"x\"}],"error":{"message":"y"}}`)
	f.Add(`{"choices":[{"delta":{"content":"#"}}]}`, `{"choices":[{"delta":{"content":""}}]}`)
	f.Add(`{"id":"a","choices":[{"text":"x"}]}`, `{"id":"b","choices":[{"text":"y"}]}`)
	f.Add(`{"id":"a","choices":[{"text":"a"}]}`, `{"id":"a","choices":[{"text":"id"}]}`)
	f.Add(`{"id":"a","choices":[],"usage":{"prompt_tokens":1}}`, `{"id":"bc","choices":[],"usage":{"prompt_tokens":2}}`)
	f.Add(`{"id":"a","choices":[{"delta":{},"finish_reason":"stop"}]}`,
		`{"id":"b","choices":[{"delta":{},"finish_reason":"abort"}]}`)
	f.Add(`{"id":"a" }`, ` }`)
	f.Fuzz(func(t *testing.T, first, second string) {
		var p Parser
		for _, text := range []string{first, second, first, second} {
			got, err := p.Parse([]byte(text))
			want, werr := Parse([]byte(text))
			if (err == nil) != (werr == nil) || got.Content != want.Content || got.Reasoning != want.Reasoning ||
				got.Finish != want.Finish || got.Tools != want.Tools || got.Done != want.Done ||
				!reflect.DeepEqual(got.Usage, want.Usage) {
				t.Errorf("%q after %q: %+v %v, want %+v %v", text, first, got, err, want, werr)
			}
		}
	})
}

// TestIDsDoNotMatter checks that messages which differ in their id and text only are parsed once.
func TestIDsDoNotMatter(t *testing.T) {
	var p Parser
	stream := func(id, text string) (usage *Usage) {
		for _, m := range []string{`[{"delta":{"content":"` + text + `"}}]`, `[],"usage":{"prompt_tokens":3}`} {
			c, err := p.Parse([]byte(`{"id":"` + id + `","choices":` + m + `}`))
			if err != nil || c.Usage == nil && c.Content != text {
				t.Fatalf("%+v, %v", c, err)
			}
			usage = c.Usage
		}
		return usage
	}

	if first, second := stream("chatcmpl-1", "a"), stream("chatcmpl-23", "b c"); first != second {
		t.Error("a message of a known form is parsed again")
	}
}

func BenchmarkParser(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" alpha"},"finish_reason":null}]}`)
	var p Parser
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if c, err := p.Parse(data); err != nil || !c.Tokens() {
			b.Fatal(err)
		}
	}
}

// TestStringsAreEscaped checks each character at each place of a string.
func TestStringsAreEscaped(t *testing.T) {
	for c := range rune(0x101) {
		for _, before := range []int{0, 3, 7, 8, 12} {
			s := strings.Repeat("a", before) + string(c) + "b c"
			want, err := Marshal(s)
			if got := AppendString(nil, s); err != nil || string(got) != string(want) {
				t.Errorf("%q is %s, want %s (%v)", s, got, want, err)
			}
		}
	}
}

func BenchmarkAppendString(b *testing.B) {
	text := strings.Repeat("word after word ", 50)
	var to []byte
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		to = AppendString(to[:0], text)
	}
}
