package workload

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// textOf returns the prompt of a turn.
func textOf(t *testing.T, turn Turn) (text string) {
	t.Helper()
	if err := json.Unmarshal(turn.Text(nil), &text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPromptsAreReproducibleAndDifferent(t *testing.T) {
	c := Config{Entries: 40, Input: Length{Mean: 20, StdDev: 5}, Output: Length{Mean: 8, StdDev: 2},
		Turns: Length{Mean: 2}, Delay: Length{Mean: 1}}
	a, b := Make(c), Make(c)
	c.Seed = 1
	other := Make(c)
	seen := map[string]bool{}
	for i := range a.Len() {
		x, y := a.At(i), b.At(i)
		if textOf(t, x.Turns[0]) != textOf(t, y.Turns[0]) || x.Turns[1].Delay != time.Second || x.Turns[0].Output != y.Turns[0].Output {
			t.Fatal("seed 0 is not repeatable")
		}
		if textOf(t, x.Turns[0]) == textOf(t, other.At(i).Turns[0]) {
			t.Error("seeds 0 and 1 give the same prompts")
		}
		if seen[textOf(t, x.Turns[0])] {
			t.Error("a prompt is there twice")
		}
		seen[textOf(t, x.Turns[0])] = true
	}
}

func TestConversationsDependOnTheirIndexOnly(t *testing.T) {
	c := Config{Entries: 10, Input: Length{Mean: 30}}
	short := Make(c)
	c.Entries = 1_000_000
	long := Make(c)
	for i := range 10 {
		if textOf(t, short.At(i).Turns[0]) != textOf(t, long.At(i).Turns[0]) {
			t.Errorf("conversation %d depends on the number of conversations", i)
		}
	}
}

func TestLengths(t *testing.T) {
	c := Config{Entries: 2000, Input: Length{Mean: 50, StdDev: 10}, IDs: true, Vocabulary: 1000}
	set := Make(c)
	sum, sq := 0.0, 0.0
	for i := range set.Len() {
		turn := set.At(i).Turns[0]
		var ids []int
		if err := json.Unmarshal(turn.Text(nil), &ids); err != nil || len(ids) != turn.Tokens {
			t.Fatal("the number of ids is not the length")
		}
		for _, id := range ids {
			if id < firstID || id >= 1000 {
				t.Fatalf("id %d", id)
			}
		}
		sum += float64(turn.Tokens)
		sq += float64(turn.Tokens) * float64(turn.Tokens)
	}
	mean := sum / 2000
	if sd := math.Sqrt(sq/2000 - mean*mean); !(math.Abs(mean-50.5) <= 1) || !(math.Abs(sd-10) <= 1) {
		t.Errorf("%v +- %v", mean, sd)
	}
	if (Length{Mean: -5, StdDev: 1}).draw(newMaker(Config{}).random(0)) < 1 {
		t.Error("a length below 1")
	}
}

// perWord is a tokenizer that has so many tokens for a word.
type perWord int

func (n perWord) Count(text string) int { return int(n) * len(strings.Fields(text)) }
func (perWord) Words() []string         { return nil }

// TestLengthsByCount checks prompts of tokenizers that have several tokens, or none, for a word.
func TestLengthsByCount(t *testing.T) {
	for tokenizer, want := range map[perWord]int{0: 0, 1: 1000, 2: 1000, 3: 1002} {
		turn := Make(Config{Entries: 1, Input: Length{Mean: 1000}, Tokenizer: tokenizer}).At(0).Turns[0]
		if got := tokenizer.Count(textOf(t, turn)); got != want || turn.Tokens != want {
			t.Errorf("%d tokens for a word: a prompt has %d, counted as %d; want %d", tokenizer, got, turn.Tokens, want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	set := Make(Config{Entries: 50, Input: Length{Mean: 5}, Prefix: 20, PrefixPool: 3})
	heads := map[string]bool{}
	for i := range set.Len() {
		words := strings.Fields(textOf(t, set.At(i).Turns[0]))
		if len(words) != 25 {
			t.Fatalf("%d words", len(words))
		}
		heads[strings.Join(words[:20], " ")] = true
	}
	if len(heads) != 3 {
		t.Errorf("%d prefixes", len(heads))
	}
}

func TestTraces(t *testing.T) {
	list, err := Trace(strings.NewReader(`{"timestamp": 1500, "input_length": 10, "output_length": 4}
{"timestamp": 1000, "input_length": 520, "output_length": 4, "hash_ids": [7, 8], "session_id": "a"}

{"input_length": 3, "output_length": 2, "session_id": "a", "delay": 250}
{"timestamp": 2000, "text_input": "hello there"}
{"timestamp": 2000, "input_length": 1024, "hash_ids": [7, 8]}
`), "t.jsonl", Config{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 4 || list[0].ID != "a" || list[0].At != 0 || list[1].At != 500*time.Millisecond ||
		list[2].At != time.Second {
		t.Errorf("%+v", list)
	}
	if n := len(strings.Fields(textOf(t, list[0].Turns[0]))); n != 520 {
		t.Errorf("%d words", n)
	}
	if !strings.HasPrefix(textOf(t, list[3].Turns[0]), textOf(t, list[0].Turns[0])+" ") {
		t.Error("a cut block has other words than the whole block")
	}
	if turns := list[0].Turns; len(turns) != 2 || !turns[1].History || turns[1].Delay != 250*time.Millisecond {
		t.Errorf("%+v", turns)
	}
	for text, want := range map[string]string{
		``:                                     "t.jsonl: the trace has no requests",
		"\n{":                                  "t.jsonl:2:",
		`{"timestamp": 1}`:                     "t.jsonl:1: it has neither input_length nor text_input",
		`{"input_length": -1}`:                 "input_length is -1",
		`{"input_length": 0}`:                  "input_length is 0",
		`{"input_length": 5, "timestamp": -1}`: "timestamp is -1 ms",
		`{"input_length": 5, "hash_ids": [1, 2]}`:                        "2 hash_ids for 5 tokens",
		"{\"input_length\": 5}\n{\"input_length\": 5, \"timestamp\": 3}": "some lines have a timestamp",
		"{\"input_length\": 5, \"session_id\": \"a\", \"timestamp\": 1}\n{\"input_length\": 5, \"session_id\": \"a\", " +
			"\"timestamp\": 2}": "later turns have a delay",
	} {
		if _, err := Trace(strings.NewReader(text), "t.jsonl", Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, want %q", text, err, want)
		}
	}
}

// FuzzTrace checks that arbitrary input is parsed or rejected.
func FuzzTrace(f *testing.F) {
	f.Add(`{"timestamp": 0, "input_length": 10, "output_length": 4, "hash_ids": [1]}`)
	f.Add(`{"text_input": "x", "session_id": 3}` + "\n" + `{"text_input": "y", "session_id": 3}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		list, err := Trace(strings.NewReader(text), "t", Config{IDs: true, Vocabulary: 1000})
		if err == nil && len(list) == 0 {
			t.Error("no error and no requests")
		}
	})
}
