package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BlockTokens is the number of tokens per hash id of a mooncake trace.
const BlockTokens = 512

// traceLine is one line of a mooncake trace.
type traceLine struct {
	// Timestamp is in ms since the start of the trace. Delay is in ms after the previous turn.
	Timestamp *float64 `json:"timestamp"`
	Delay     *float64 `json:"delay"`
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	HashIDs   []int64  `json:"hash_ids"`

	// Text or Text2 is the literal prompt. Both names are in use.
	Text      *string         `json:"text_input"`
	Text2     *string         `json:"text"`
	Session   json.RawMessage `json:"session_id"`
	SessionID string          `json:"-"`
}

// Trace reads a BurstGPT trace if the name ends in .csv, and else a mooncake trace: JSON lines with timestamp (ms), input_length, output_length and hash_ids,
// or text_input. Lines with the same session_id are turns of one conversation, separated by delay (ms).
// Prompts share the text of blocks of 512 tokens with equal hash ids. The conversations are sorted by time,
// the first at 0.
//
// Trace uses only Seed, Tokenizer, IDs and Vocabulary of the config. Errors contain name and the line
// number.
func Trace(r io.Reader, name string, c Config) ([]Conversation, error) {
	if strings.HasSuffix(name, ".csv") {
		lines, err := burst(r, name)
		if err != nil {
			return nil, err
		}
		r = lines
	}

	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), 64<<20)
	var out []Conversation
	session := map[string]int{}
	m := &tracer{c: c, v: newVocabulary(c.Tokenizer), blocks: map[int64]Turn{}}
	n := 0

	for s.Scan() {
		n++
		raw := bytes.TrimSpace(s.Bytes())
		if len(raw) == 0 {
			continue
		}

		bad := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", name, n, fmt.Sprintf(format, args...))
		}

		var l traceLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, bad("%v", err)
		}

		if l.Text == nil {
			l.Text = l.Text2
		}

		if l.Text == nil && l.Input == nil {
			return nil, bad("it has neither input_length nor text_input")
		}

		for what, v := range map[string]*int{"input_length": l.Input, "output_length": l.Output} {
			if v != nil && (*v < 0 || *v > maxTokens) {
				return nil, bad("%s is %d", what, *v)
			}
		}

		for what, v := range map[string]*float64{"timestamp": l.Timestamp, "delay": l.Delay} {
			if v != nil && !(*v >= 0 && *v < 1e12) {
				return nil, bad("%s is %v ms", what, *v)
			}
		}

		t, err := m.turn(&l, n)
		if err != nil {
			return nil, bad("%v", err)
		}

		id := "trace_" + fmt.Sprintf("%06d", len(out))
		if key := string(l.Session); key != "" && key != "null" {
			if u, err := strconv.Unquote(key); err == nil {
				key = u
			}

			if i, ok := session[key]; ok {
				t.History = true
				if l.Delay != nil {
					t.Delay = milliseconds(*l.Delay)
				} else if l.Timestamp != nil {
					return nil, bad("session %s goes on with a timestamp; later turns have a delay", key)
				}
				out[i].Turns = append(out[i].Turns, t)
				continue
			}

			session[key] = len(out)
			id = key
		}

		if l.Timestamp == nil && len(out) > 0 && out[0].At >= 0 || l.Timestamp != nil && len(out) > 0 && out[0].At < 0 {
			return nil, bad("some lines have a timestamp and others have none")
		}

		at := time.Duration(-1)
		if l.Timestamp != nil {
			at = milliseconds(*l.Timestamp)
		}

		out = append(out, Conversation{ID: id, Turns: []Turn{t}, At: at})
	}

	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
	}

	if len(out) == 0 {
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

// burst converts a BurstGPT trace to mooncake's format, line by line: CSV with the columns Timestamp (seconds), Request
// tokens and Response tokens. Rows of requests that failed, without response tokens, are left empty.
func burst(r io.Reader, name string) (io.Reader, error) {
	in := csv.NewReader(r)
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	var at [3]int
	for i, want := range []string{"Timestamp", "Request tokens", "Response tokens"} {
		if at[i] = slices.Index(head, want); at[i] < 0 {
			return nil, fmt.Errorf("%s:1: a trace in CSV has the columns Timestamp, Request tokens and Response tokens, as BurstGPT", name)
		}
	}

	out := bytes.NewBufferString("\n") // the header's line
	for {
		row, err := in.Read()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}

		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(row[at[i]], 64); err != nil {
				line, _ := in.FieldPos(at[i])
				return nil, fmt.Errorf("%s:%d: %s is %q", name, line, head[at[i]], row[at[i]])
			}
		}
		if v[1] > 0 && v[2] > 0 {
			fmt.Fprintf(out, `{"timestamp": %v, "input_length": %v, "output_length": %v}`, 1e3*v[0], v[1], v[2])
		}
		out.WriteByte('\n')
	}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// A tracer builds prompts from blocks.
type tracer struct {
	c      Config
	v      vocabulary
	blocks map[int64]Turn
}

func (m *tracer) turn(l *traceLine, line int) (Turn, error) {
	var t Turn
	switch {
	case l.Text != nil:
		t = Turn{Text: *l.Text, Tokens: -1}
		if m.c.Tokenizer != nil {
			t.Tokens = len(m.c.Tokenizer.Encode(t.Text))
		}

	case *l.Input == 0:
		return t, fmt.Errorf("input_length is 0")

	default:
		left := *l.Input
		if blocks := (left + BlockTokens - 1) / BlockTokens; len(l.HashIDs) > blocks {
			return t, fmt.Errorf("%d hash_ids for %d tokens; a block has %d", len(l.HashIDs), left, BlockTokens)
		}

		for i, id := range l.HashIDs {
			b := m.block(id)
			if i > 0 {
				t = join(t, b)
			} else {
				t = b
			}
			left -= BlockTokens
		}

		// The remaining tokens are unique to this request. If the last block is not full, the prompt is
		// cut.
		switch {
		case left > 0:
			own := m.make(uint64(line), 0x6f776e, left)
			if len(l.HashIDs) > 0 {
				t = join(t, own)
			} else {
				t = own
			}
		case left < 0:
			t = m.cut(t, *l.Input)
		}
	}

	if l.Output != nil {
		t.Output = *l.Output
	}

	return t, nil
}

func (m *tracer) block(id int64) Turn {
	b, ok := m.blocks[id]
	if !ok {
		b = m.make(uint64(id), 0x626c6f636b, BlockTokens)
		m.blocks[id] = b
	}
	return b
}

func (m *tracer) make(what, stream uint64, n int) Turn {
	c := m.c
	return newMaker(c, m.v, what^stream<<32).prompt(n)
}

// cut shortens a prompt to n tokens.
func (m *tracer) cut(t Turn, n int) Turn {
	switch {
	case t.IDs != nil:
		return Turn{IDs: t.IDs[:n], Tokens: n}
	case m.c.Tokenizer != nil:
		ids := m.c.Tokenizer.Encode(t.Text)
		text := m.c.Tokenizer.Decode(ids[:min(n, len(ids))])
		return Turn{Text: text, Tokens: len(m.c.Tokenizer.Encode(text))}
	}

	words := bytes.Fields([]byte(t.Text))
	return Turn{Text: string(bytes.Join(words[:min(n, len(words))], []byte(" "))), Tokens: -1}
}
