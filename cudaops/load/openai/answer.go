package openai

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"aicplan/sink/base/textutil"
)

// Usage are the server's token counts. A field is -1 if the server does not report it.
type Usage struct {
	Prompt, Completion, Total int
	// Reasoning is the part of Completion that is reasoning. Cached is the part of Prompt that was found in
	// a prefix cache.
	Reasoning, Cached int
}

// Chunk is the content of one message of a stream or of a whole response. Content and Reasoning may alias
// the parsed bytes.
type Chunk struct {
	Content, Reasoning string

	// IDs counts the token ids in the message. Servers without a tokenizer send ids instead of text
	// (return_token_ids of vLLM).
	IDs int

	// Tools is true if the message contains part of a tool call. Call is the text of that part: names and
	// arguments.
	Tools bool
	Call  string

	// Items counts embeddings or ranked documents. Done is true for the last message of a stream of Responses.
	Items int
	Done  bool

	// Finish is the finish_reason, or "" if it is not set.
	Finish string

	// Usage is shared by equal messages. It must not be changed.
	Usage *Usage
}

// Tokens reports whether the chunk contains output of the model.
func (c *Chunk) Tokens() bool {
	return c.Content != "" || c.Reasoning != "" || c.Tools || c.IDs > 0 || c.Items > 0
}

// ErrJSON is returned for a message that is not a JSON object.
var ErrJSON = errors.New("a message of the answer is no JSON object")

// ServerError is an error that the server reports inside a response.
type ServerError struct {
	Code    int // 0 if not set
	Type    string
	Message string
}

func (e *ServerError) Error() string {
	t := e.Message
	if e.Type != "" {
		t = e.Type + ": " + t
	}
	return "the server reports an error inside its answer: " + t
}

// Done is the data of the message that ends a stream.
const Done = "[DONE]"

// Parse parses one message. It concatenates the content of several choices. It returns ErrJSON or a
// *ServerError.
func Parse(data []byte) (Chunk, error) {
	var c Chunk
	if !gjson.ValidBytes(data) {
		return c, fmt.Errorf("%w: %q", ErrJSON, textutil.Clip(string(data), 120))
	}

	// The bytes do not change while c is in use.
	root := gjson.Parse(unsafe.String(unsafe.SliceData(data), len(data)))
	if !root.IsObject() {
		return c, fmt.Errorf("%w: %q", ErrJSON, textutil.Clip(string(data), 120))
	}

	var failure error
	var delta gjson.Result
	kind := ""
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			kind = value.Str

		case "delta":
			delta = value

		case "output":
			c.output(value)

		case "response":
			c.response(value, &failure)

		case "data", "results":
			c.Items += int(value.Get("#").Int())

		case "choices":
			value.ForEach(func(_, choice gjson.Result) bool {
				c.choice(choice)
				return true
			})

		case "usage":
			if value.IsObject() {
				c.Usage = usage(value)
			}

		case "error":
			if value.Type != gjson.Null {
				failure = serverError(value)
			}

		case "object":
			if value.Str == "error" {
				failure = serverError(root)
			}
		}

		return failure == nil
	})

	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		join(&c.Content, delta)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		join(&c.Reasoning, delta)
	case "response.function_call_arguments.delta":
		c.Tools = true
		join(&c.Call, delta)
	case "response.completed", "response.incomplete":
		c.Done, c.Content, c.Reasoning, c.Call, c.Tools = true, "", "", "", false // deltas had the output
	case "response.failed", "error":
		failure = cmp.Or(failure, serverError(root))
	}

	if failure == nil && slices.Contains(gaveUp, c.Finish) {
		failure = &ServerError{Message: fmt.Sprintf("finish_reason is %q", c.Finish)}
	}

	return c, failure
}

// ErrorEvent returns the error for a message with the type error ("event: error").
func ErrorEvent(data []byte) error {
	text := string(data)
	if root := gjson.Parse(text); gjson.Valid(text) && root.IsObject() {
		return serverError(root)
	}
	return &ServerError{Message: textutil.Clip(text, 120)}
}

func (c *Chunk) choice(choice gjson.Result) {
	choice.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "delta", "message":
			value.ForEach(func(key, value gjson.Result) bool {
				switch key.Str {
				case "content", "refusal":
					join(&c.Content, value)

				case "reasoning_content", "reasoning":
					// vLLM sends the same text under both names.
					if c.Reasoning == "" {
						join(&c.Reasoning, value)
					}

				case "tool_calls":
					for _, call := range value.Array() {
						c.call(call.Get("function"))
					}

				case "function_call":
					if value.IsObject() {
						c.call(value)
					}
				}

				return true
			})

		case "text":
			join(&c.Content, value)

		case "token_ids":
			if value.IsArray() {
				c.IDs += int(value.Get("#").Int())
			}

		case "finish_reason":
			if value.Type == gjson.String {
				c.Finish = strings.Clone(value.Str)
			}
		}

		return true
	})
}

// response adds the object that ends a stream of Responses.
func (c *Chunk) response(v gjson.Result, failure *error) {
	if u := v.Get("usage"); u.IsObject() {
		c.Usage = usage(u)
	}
	if e := v.Get("error"); e.Exists() && e.Type != gjson.Null {
		*failure = serverError(e)
	}
}

// output adds the items of a whole response of Responses.
func (c *Chunk) output(v gjson.Result) {
	v.ForEach(func(_, item gjson.Result) bool {
		switch item.Get("type").Str {
		case "message":
			join(&c.Content, item.Get("content"))
		case "reasoning":
			join(&c.Reasoning, item.Get("content"))
			join(&c.Reasoning, item.Get("summary"))
		case "function_call":
			c.call(item)
		}
		return true
	})
}

// call adds part of a tool call.
func (c *Chunk) call(f gjson.Result) {
	c.Tools = true
	join(&c.Call, f.Get("name"))
	join(&c.Call, f.Get("arguments"))
}

// gaveUp are the finish_reasons of responses that the server aborted.
var gaveUp = []string{"error", "abort"}

// join appends a text, or the texts of a list of parts.
func join(to *string, v gjson.Result) {
	if v.IsArray() {
		v.ForEach(func(_, part gjson.Result) bool {
			join(to, part.Get("text"))
			return true
		})
		return
	}

	if v.Type != gjson.String {
		return
	}

	if *to == "" {
		*to = v.Str
	} else {
		*to += v.Str
	}
}

func usage(v gjson.Result) *Usage {
	u := &Usage{Prompt: -1, Completion: -1, Total: -1, Reasoning: -1, Cached: -1}
	set := func(to *int, n gjson.Result) {
		if n.Type == gjson.Number && n.Num >= 0 && *to < 0 {
			*to = int(n.Num)
		}
	}

	v.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		// Responses has names of its own.
		case "prompt_tokens", "input_tokens":
			set(&u.Prompt, value)
		case "completion_tokens", "output_tokens":
			set(&u.Completion, value)
		case "total_tokens":
			set(&u.Total, value)
		case "completion_tokens_details", "output_tokens_details":
			set(&u.Reasoning, value.Get("reasoning_tokens"))
		case "reasoning_tokens": // of SGLang
			set(&u.Reasoning, value)
		case "prompt_tokens_details", "input_tokens_details":
			set(&u.Cached, value.Get("cached_tokens"))
		}
		return true
	})
	return u
}

func serverError(v gjson.Result) error {
	if v.Type == gjson.String {
		return &ServerError{Message: strings.Clone(v.Str)}
	}

	code, err := strconv.Atoi(v.Get("code").String())
	if err != nil {
		code = 0
	}
	return &ServerError{Code: code, Type: strings.Clone(v.Get("type").String()),
		Message: cmp.Or(strings.Clone(v.Get("message").String()), textutil.Clip(v.Raw, 120))}
}
