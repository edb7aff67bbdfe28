package workload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// entry is one entry of a dataset, in any of its formats.
type entry struct {
	Messages      []json.RawMessage `json:"messages"`
	Tools         json.RawMessage   `json:"tools"`
	Conversations []struct {
		From  string `json:"from"`
		Value string `json:"value"`
	} `json:"conversations"`
	Prompt  *string         `json:"prompt"`
	Text    *string         `json:"text"`
	Input   *string         `json:"text_input"`
	Session json.RawMessage `json:"session_id"`

	// The number of output tokens has one of the names of AIPerf, of vLLM's bench, or of OpenAI's requests.
	Output        whole `json:"output_length"`
	OutputTokens  whole `json:"output_tokens"`
	MaxCompletion whole `json:"max_completion_tokens"`
	MaxTokens     whole `json:"max_tokens"`
}

// whole is a whole number. Pandas writes it as 3.0 if it is missing in some rows.
type whole int

// UnmarshalJSON implements json.Unmarshaler.
func (n *whole) UnmarshalJSON(text []byte) error {
	var f float64
	if err := json.Unmarshal(text, &f); err != nil || f != math.Trunc(f) {
		return json.Unmarshal(text, (*int)(n)) // its error names the type
	}
	*n = whole(f)
	return nil
}

// Dataset reads prompts from a file; see objects for its formats. An object has messages (OpenAI's, with optional
// tools), conversations (ShareGPT's), or prompt or text, and optionally output_length and session_id. Other names of
// output_length are output_tokens, max_completion_tokens and max_tokens.
//
// Entries with the same session_id are turns of one conversation. Each message of a human in a ShareGPT conversation
// is a turn; a conversation without one is left out. Of the config, only Tokenizer and Output are used; Output applies
// to entries without output_length. Images of messages may be names of files, relative to the dataset; they are
// embedded. Errors contain name and the place.
func Dataset(r io.Reader, name string, c Config) ([]Conversation, error) {
	if !slices.Contains([]string{".txt", ".csv", ".json", ".jsonl", ".parquet"}, filepath.Ext(name)) {
		return nil, fmt.Errorf("%s: a dataset is a .txt, .csv, .json, .jsonl or .parquet file", name)
	}

	d := &dataset{c: c, name: name, sessions: map[string]int{}}
	err := objects(r, name, func(raw []byte, _ int) error {
		var e entry
		if err := decode(raw, &e); err != nil {
			return err
		}
		return named(d.add(e), raw)
	})

	if err == nil && len(d.out) == 0 {
		err = fmt.Errorf("%s: the dataset has no prompts", name)
	}
	return d.out, err
}

type dataset struct {
	c        Config
	name     string
	out      []Conversation
	sessions map[string]int // index in out by session_id
}

// add adds an entry as a conversation, or to the conversation of its session.
func (d *dataset) add(e entry) error {
	e.Output = cmp.Or(e.Output, e.OutputTokens, e.MaxCompletion, e.MaxTokens)
	if e.Output < 0 || e.Output > MaxTokens {
		return fmt.Errorf("output_length is %d", e.Output)
	}

	var turns []Turn
	switch {
	case len(e.Messages) > 0:
		text, err := d.embed(e.Messages)
		if err != nil {
			return err
		}
		t := literal(text, d.c.Tokenizer)
		t.Messages, t.Tools, t.Bytes = e.Messages, e.Tools, len(e.Tools)
		for _, m := range t.Messages {
			t.Bytes += len(m)
		}
		turns = append(turns, t)

	case len(e.Conversations) > 0:
		for i, m := range e.Conversations {
			if m.From == "" {
				return fmt.Errorf("message %d of conversations has no from; a list with role and content belongs in messages", i+1)
			}
			if (m.From == "human" || m.From == "user") && strings.TrimSpace(m.Value) != "" {
				turns = append(turns, literal(m.Value, d.c.Tokenizer))
			}
		}

	default:
		for _, text := range []*string{e.Prompt, e.Text, e.Input} {
			if text != nil && *text != "" {
				turns = append(turns, literal(*text, d.c.Tokenizer))
				break
			}
		}
	}

	if len(turns) == 0 && e.Conversations != nil {
		return nil // ShareGPT's own file has conversations without a prompt
	}

	if len(turns) == 0 {
		return missing("it has no messages, conversations, prompt or text")
	}

	for i := range turns {
		t := &turns[i]
		t.History, t.Output = i > 0, int(e.Output)
		if t.Output == 0 && d.c.Output.Mean > 0 {
			t.Output = int(d.c.Output.Mean)
		}
	}

	if key := string(e.Session); key != "" && key != "null" {
		if i, ok := d.sessions[key]; ok {
			turns[0].History = true
			d.out[i].Turns = append(d.out[i].Turns, turns...)
			return nil
		}
		d.sessions[key] = len(d.out)
	}

	d.out = append(d.out, Conversation{ID: fmt.Sprintf("dataset_%06d", len(d.out)), Turns: turns, At: -1})
	return nil
}

// embed replaces names of image files in messages by their data, and returns the texts of the messages.
func (d *dataset) embed(messages []json.RawMessage) (string, error) {
	var texts []string
	for i, raw := range messages {
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil || m["role"] == nil {
			return "", fmt.Errorf("message %d is no object with a role", i+1)
		}

		if text, ok := m["content"].(string); ok {
			texts = append(texts, text)
		}

		parts, _ := m["content"].([]any)
		changed := false
		for _, p := range parts {
			part, _ := p.(map[string]any)
			if text, ok := part["text"].(string); ok {
				texts = append(texts, text)
			}

			image, _ := part["image_url"].(map[string]any)
			url, ok := image["url"].(string)
			if !ok || strings.Contains(url, ":") {
				continue
			}

			path := filepath.Join(filepath.Dir(d.name), url)
			if d.c.Opened != nil {
				d.c.Opened(path)
			}

			data, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("image: %w", err)
			}
			image["url"], changed = dataURL(mime.TypeByExtension(filepath.Ext(url)), data), true
		}

		if changed {
			out, err := json.Marshal(m)
			if err != nil {
				return "", err
			}
			messages[i] = out
			continue
		}

		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return "", err
		}
		messages[i] = compact.Bytes()
	}

	return strings.Join(texts, "\n"), nil
}
