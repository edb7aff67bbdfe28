package workload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// BlockTokens is the number of tokens per hash id of a mooncake trace.
const BlockTokens = 512

// bailianTokens is the number of tokens per hash id of a trace of Bailian.
const bailianTokens = 16

// traceLine is one request of a trace, as a line of a mooncake trace has it.
type traceLine struct {
	// Timestamp is in ms. Delay is in ms after the previous turn.
	Timestamp *float64 `json:"timestamp"`
	Delay     *float64 `json:"delay"`
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	HashIDs   []int64  `json:"hash_ids"`

	// Text or Text2 is the literal prompt. Both names are in use.
	Text    *string         `json:"text_input"`
	Text2   *string         `json:"text"`
	Session json.RawMessage `json:"session_id"`

	// BurstGPT's columns, the time in seconds. Requests that failed have no response tokens.
	At       *float64 `json:"Timestamp"`
	Request  int      `json:"Request tokens"`
	Response int      `json:"Response tokens"`

	// Bailian's id of a request, whose time is in seconds and whose blocks have bailianTokens.
	Chat *json.RawMessage `json:"chat_id"`

	block int  // tokens per hash id, or 0 for BlockTokens
	whole bool // the prompt contains earlier turns
}

// Trace reads requests from a file; see objects for its formats. An object is one of
//
//   - a request of a mooncake trace with timestamp (ms), input_length, output_length and hash_ids, or text_input
//   - a request of Bailian, in which timestamp is in seconds
//   - a request of BurstGPT
//   - a conversation of a coding agent, as kv-cache-tester records them
//   - spans of OpenTelemetry with token counts of generative AI, in OTLP's JSON encoding
//
// Requests with the same session_id are turns of one conversation, separated by delay (ms). Prompts share the text of
// blocks with equal hash ids. The conversations are sorted by time, the first at 0.
//
// Trace uses only Seed, Tokenizer, IDs and Vocabulary of the config. Errors contain name and the line of an object that
// is on one line, or else the number of the object.
func Trace(r io.Reader, name string, c Config) ([]Conversation, error) {
	if filepath.Ext(name) == ".txt" {
		return nil, fmt.Errorf("%s: a trace is a .jsonl, .json or .csv file; prompts in a .txt file are a dataset", name)
	}

	t := &tracer{maker: newMaker(c), sessions: map[string]int{}}
	err := objects(r, name, func(raw []byte, place int) error {
		var e traceEntry
		if err := decode(raw, &e); err != nil {
			return err
		}
		return named(t.add(&e, place), raw)
	})

	out := t.out
	switch {
	case err != nil:
		return nil, err
	case len(out) == 0:
		return nil, fmt.Errorf("%s: the trace has no requests", name)
	}

	slices.SortStableFunc(out, func(a, b Conversation) int { return cmp.Compare(a.At, b.At) })
	if first := out[0].At; first > 0 {
		for i := range out {
			out[i].At -= first
		}
	}
	return out, nil
}

// add adds the requests of an entry of the file.
func (m *tracer) add(e *traceEntry, number int) error {
	lines, err := e.lines(number)
	if err != nil {
		return err
	}

	for i := range lines {
		if err := m.request(&lines[i], number+i<<32); err != nil {
			return err
		}
	}
	return nil
}

// request adds a request as a conversation, or to the conversation of its session. number distinguishes requests.
func (m *tracer) request(l *traceLine, number int) error {
	l.Text = cmp.Or(l.Text, l.Text2)
	if l.Text == nil && l.Input == nil {
		return missing("it has neither input_length nor text_input")
	}

	for what, v := range map[string]*int{"input_length": l.Input, "output_length": l.Output} {
		if v != nil && (*v < 0 || *v > MaxTokens) {
			return fmt.Errorf("%s is %d", what, *v)
		}
	}

	for what, v := range map[string]*float64{"timestamp": l.Timestamp, "delay": l.Delay} {
		if v != nil && !(*v >= 0 && *v < 1e13) {
			return fmt.Errorf("%s is %v ms", what, *v)
		}
	}

	t, err := m.turn(l, number)
	if err != nil {
		return err
	}

	id := fmt.Sprintf("trace_%06d", len(m.out))
	if key := string(l.Session); key != "" && key != "null" {
		if u, err := strconv.Unquote(key); err == nil {
			key = u
		}

		if i, ok := m.sessions[key]; ok {
			t.History = !l.whole && !m.c.IDs
			if l.Delay != nil {
				t.Delay = milliseconds(*l.Delay)
			} else if l.Timestamp != nil {
				return fmt.Errorf("session %s goes on with a timestamp; later turns have a delay", key)
			}
			m.out[i].Turns = append(m.out[i].Turns, t)
			return nil
		}

		m.sessions[key] = len(m.out)
		id = key
	}

	at := time.Duration(-1)
	if l.Timestamp != nil {
		at = milliseconds(*l.Timestamp)
	}
	if len(m.out) > 0 && (at < 0) != (m.out[0].At < 0) {
		return errors.New("some lines have a timestamp and others have none")
	}

	m.out = append(m.out, Conversation{ID: id, Turns: []Turn{t}, At: at})
	return nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// A tracer collects the conversations of a trace. Their prompts consist of blocks.
type tracer struct {
	*maker
	out      []Conversation
	sessions map[string]int // index in out by session_id
}

func (m *tracer) turn(l *traceLine, line int) (Turn, error) {
	var t Turn
	switch {
	case l.Text != nil:
		t = literal(*l.Text, m.c.Tokenizer)

	case *l.Input == 0:
		return t, fmt.Errorf("input_length is 0")

	default:
		left, size := *l.Input, cmp.Or(l.block, BlockTokens)
		if blocks := (left + size - 1) / size; len(l.HashIDs) > blocks {
			return t, fmt.Errorf("%d hash_ids for %d tokens; a block has %d", len(l.HashIDs), left, size)
		}

		// The last block may be cut. It then has the first words of the whole block. Tokens without a hash id are unique to
		// this request.
		parts := make([]part, 0, len(l.HashIDs)+1)
		for _, id := range l.HashIDs {
			parts = append(parts, m.part(uint64(id)^0x626c6f63<<32, min(size, left)))
			left -= size
		}
		if left > 0 {
			parts = append(parts, m.part(uint64(line)^0x6f776e<<32, left))
		}
		t = m.prompt(parts...)
	}

	if l.Output != nil {
		t.Output = max(*l.Output, 1) // zero is the server's choice in a Turn
	}

	return t, nil
}
