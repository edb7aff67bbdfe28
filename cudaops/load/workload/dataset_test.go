package workload

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestParquet reads files that pyarrow wrote: lists of groups, empty and missing lists, several row groups, and columns
// that are no part of a prompt.
func TestParquet(t *testing.T) {
	for name, want := range map[string][]string{
		"chat.parquet": {
			`0 [{"content":"be brief","role":"system"} {"content":"hi","role":"user"}]`,
			`7 second`, `0 third`,
			`5 [{"content":"a","role":"user"} {"role":"user"} {"content":"ü","role":"user"}]`,
		},
		"sharegpt.parquet": {`0 a | 0 c`},
		"missing.parquet":  {`3 x`, `0 y`}, // a column of doubles, because a length is missing
	} {
		f, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Dataset(f, name, Config{})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, c := range list {
			var turns []string
			for _, turn := range c.Turns {
				text := textOf(t, turn)
				if turn.Messages != nil {
					text = fmt.Sprintf("%s", turn.Messages)
				}
				turns = append(turns, fmt.Sprint(turn.Output, " ", text))
			}
			got = append(got, strings.Join(turns, " | "))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	if _, err := Dataset(strings.NewReader("PAR1 and not more"), "x.parquet", Config{}); err == nil ||
		!strings.HasPrefix(err.Error(), "x.parquet: ") {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestParquetWithPartsOfContent checks that messages are not sent without their content.
func TestParquetWithPartsOfContent(t *testing.T) {
	f, err := os.Open("testdata/parts.parquet")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if list, err := Dataset(f, "parts.parquet", Config{}); err == nil ||
		!strings.Contains(err.Error(), "column messages.list.element.content.list.element.text: lists and groups within") {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestShareGPTWithoutPrompts leaves out conversations and messages without a prompt, which the public file has.
func TestShareGPTWithoutPrompts(t *testing.T) {
	list, err := Dataset(strings.NewReader(`[{"id": "a", "conversations": []},
{"id": "b", "conversations": [{"from": "gpt", "value": "x"}]},
{"id": "c", "conversations": [{"from": "human", "value": " "}, {"from": "gpt", "value": "x"}, {"from": "human", "value": "y"}]}]`),
		"a.json", Config{})
	if err != nil || len(list) != 1 || len(list[0].Turns) != 1 || textOf(t, list[0].Turns[0]) != "y" || list[0].Turns[0].History {
		t.Errorf("%+v, %v", list, err)
	}

	_, err = Dataset(strings.NewReader(`[{"conversations": []}]`), "a.json", Config{})
	if err == nil || err.Error() != "a.json: the dataset has no prompts" {
		t.Errorf("a file without prompts: %v", err)
	}
}

// TestOutputLengths reads the number of output tokens by the names of other clients.
func TestOutputLengths(t *testing.T) {
	for name, text := range map[string]string{
		"a.jsonl": `{"prompt": "a", "output_length": 7}
{"prompt": "a", "output_tokens": 7.0}
{"messages": [{"role": "user", "content": "a"}], "max_tokens": 7}
{"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 7, "max_tokens": null}`,
		"a.csv": "prompt,output_tokens\na,7\na,7.0\n",
	} {
		list, err := Dataset(strings.NewReader(text), name, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range list {
			if got := c.Turns[0].Output; got != 7 {
				t.Errorf("%s: prompt %d asks for %d tokens, want 7", name, i, got)
			}
		}
	}

	_, err := Dataset(strings.NewReader(`{"prompt": "a", "max_tokens": 7.5}`), "a.jsonl", Config{})
	if err == nil || err.Error() != "a.jsonl:1: max_tokens is a number 7.5; the type is int" {
		t.Error(err)
	}
}

// TestUnknownFields names the fields of an object without a prompt.
func TestUnknownFields(t *testing.T) {
	_, traced := Trace(strings.NewReader("arrived,ContextTokens\n1,2\n"), "a.csv", Config{})
	_, read := Dataset(strings.NewReader(`{"turns": [], "id": 1}`), "a.jsonl", Config{})
	_, empty := Dataset(strings.NewReader("{}"), "a.jsonl", Config{})
	_, none := Dataset(strings.NewReader(""), "a.csv", Config{})
	for err, want := range map[error]string{
		empty:  "a.jsonl:1: it has no messages, conversations, prompt or text, but no field at all",
		none:   "a.csv: the dataset has no prompts",
		traced: "a.csv:2: it has neither input_length nor text_input, but ContextTokens, arrived",
		read:   "a.jsonl:1: it has no messages, conversations, prompt or text, but id, turns",
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestBailianTrace reads requests with times in seconds and blocks of 16 tokens.
func TestBailianTrace(t *testing.T) {
	list, err := Trace(strings.NewReader(`{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 20, "output_length": 7, "type": "text", "turn": 1, "hash_ids": [1, 2]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 62.6, "input_length": 40, "output_length": 8, "type": "text", "turn": 2, "hash_ids": [1, 3, 4]}`),
		"a.jsonl", Config{})
	if err != nil || len(list) != 2 || list[0].At != 0 || list[1].At.Round(time.Microsecond) != 1500*time.Millisecond {
		t.Fatalf("%+v, %v", list, err)
	}
	a, b := strings.Fields(textOf(t, list[0].Turns[0])), strings.Fields(textOf(t, list[1].Turns[0]))
	if len(a) != 20 || len(b) != 40 || !slices.Equal(a[:16], b[:16]) || slices.Equal(a[16:], b[16:20]) {
		t.Errorf("%v\n%v", a, b)
	}
}

// TestAgenticTraces reads the conversations of coding agents: each request has its whole prompt, equal blocks have
// equal text within a conversation only, and sub-agents are conversations of their own.
func TestAgenticTraces(t *testing.T) {
	text := `{"id": "one", "block_size": 64, "hash_id_scope": "local", "requests": [
  {"t": 0, "type": "n", "in": 128, "out": 5, "hash_ids": [1, 2], "api_time": 2},
  {"t": 5, "type": "subagent", "agent_id": "agent_001", "requests": [{"t": 0, "type": "n", "in": 64, "out": 1, "hash_ids": [1]}]},
  {"t": 9, "type": "s", "in": 200, "out": 6, "hash_ids": [1, 2, 3], "think_time": 1.5}]}
{"id": "two", "block_size": 64, "hash_id_scope": "local", "requests": [
  {"t": 0, "type": "n", "in": 64, "out": 5, "hash_ids": [1], "api_time": 2},
  {"t": 9, "type": "n", "in": 10, "out": 5}]}`
	list, err := Trace(strings.NewReader(text), "a.json", Config{})
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, c := range list {
		line := c.ID
		for _, turn := range c.Turns {
			line += fmt.Sprint(" ", len(strings.Fields(textOf(t, turn))), "/", turn.Output, "/", turn.Delay, "/", turn.History)
		}
		got = append(got, line)
	}
	want := "[one 128/5/0s/false 200/6/1.5s/false one::agent_001 64/1/0s/false two 64/5/0s/false 10/5/7s/false]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	text = textOf(t, list[0].Turns[0])
	agent := textOf(t, list[1].Turns[0])
	if !strings.HasPrefix(textOf(t, list[0].Turns[1]), text) || !strings.HasPrefix(text, agent) ||
		textOf(t, list[2].Turns[0]) == agent {
		t.Error("the blocks of prompts are not shared as their hash ids are")
	}
}

// TestTraceWithoutOutput asks for one token if a request had none: without a limit, the server would decide.
func TestTraceWithoutOutput(t *testing.T) {
	list, err := Trace(strings.NewReader(`{"timestamp": 0, "input_length": 3, "output_length": 0}`), "a.jsonl", Config{})
	if err != nil || len(list) != 1 || list[0].Turns[0].Output != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestLinesWithoutObject reports what a line has instead of an object.
func TestLinesWithoutObject(t *testing.T) {
	_, traced := Trace(strings.NewReader("[1]"), "a.jsonl", Config{})
	_, read := Dataset(strings.NewReader("5"), "a.jsonl", Config{})
	for err, want := range map[error]string{traced: "a.jsonl:1: this is not an object but array",
		read: "a.jsonl:1: this is not an object but number"} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOpenTelemetryTraces reads spans of a collector's file exporter.
func TestOpenTelemetryTraces(t *testing.T) {
	span := func(start, attributes string) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"a","name":"chat `+
			`m","startTimeUnixNano":%s,"attributes":[%s]}]}]}]}`,
			start, attributes) + "\n"
	}
	tokens := `{"key":"gen_ai.request.model","value":{"stringValue":"m"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":%s}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":%s}}`
	list, err := Trace(strings.NewReader(
		span(`"1795530215000000000"`, fmt.Sprintf(tokens, `"30"`, `"4"`))+
			span(`"1795530215100000000"`, `{"key":"http.method","value":{"stringValue":"GET"}}`)+
			span(`1795530214750000000`, fmt.Sprintf(tokens, `20`, `3`))), "otel.jsonl", Config{})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d requests, %v", len(list), err)
	}
	for i, want := range []string{"0s 20 3", "250ms 30 4"} {
		turn := list[i].Turns[0]
		if got := fmt.Sprint(list[i].At.Round(time.Microsecond), " ", len(strings.Fields(textOf(t, turn))), " ",
			turn.Output); got != want {
			t.Errorf("request %d is %s, want %s", i, got, want)
		}
	}

	_, err = Trace(strings.NewReader(span(`"1"`, fmt.Sprintf(tokens, `"many"`, `"4"`))), "otel.jsonl", Config{})
	if err == nil || !strings.Contains(err.Error(), `otel.jsonl:1: a span has "\"many\"" instead of a whole number`) {
		t.Errorf("a span with a text for a count: %v", err)
	}
}
