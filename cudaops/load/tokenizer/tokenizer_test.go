package tokenizer

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/load/workload"
)

// The vocabularies in testdata were trained on this project's documentation with the reference
// implementation (tokenizers 0.22), which also generated the expected ids.
var kinds = []string{"gpt2", "qwen", "llama3", "digits", "llama2", "gemma", "mistral"}

func load(t testing.TB, kind string) *Tokenizer {
	t.Helper()
	tok, err := Load(filepath.Join("testdata", kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// idsOf returns the token ids of a text.
func idsOf(tok *Tokenizer, text string) (out []int) {
	tok.encode(text, func(ids []int) { out = append(out, ids...) })
	return out
}

// decode returns the text of ids of byte-level BPE.
func decode(tok *Tokenizer, ids []int) string {
	bytes, texts := map[rune]byte{}, map[int]string{}
	for b, r := range letterOf {
		bytes[r] = byte(b)
	}
	for _, a := range tok.added {
		texts[a.id] = a.text
	}
	var b strings.Builder
	for _, id := range ids {
		if text, ok := texts[id]; ok {
			b.WriteString(text)
			continue
		}
		for _, r := range tok.tokens[id] {
			b.WriteByte(bytes[r])
		}
	}
	return b.String()
}

func TestReferenceVectors(t *testing.T) {
	for _, kind := range kinds {
		tok := load(t, kind)
		raw, err := os.ReadFile(filepath.Join("testdata", kind+".vectors.json"))
		if err != nil {
			t.Fatal(err)
		}
		var vectors []struct {
			Text string
			IDs  []int
		}
		if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors) < 15 {
			t.Fatalf("%d vectors, %v", len(vectors), err)
		}
		for _, v := range vectors {
			if got := idsOf(tok, v.Text); !slices.Equal(got, v.IDs) {
				t.Errorf("%s: %.60q is %v, want %v", kind, v.Text, got, v.IDs)
			}
		}
	}
}

// TestCountIsTheNumberOfIDs compares the counts of a text's parts, which are cached, with the ids of the whole text.
func TestCountIsTheNumberOfIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, kind := range kinds {
		var texts []struct{ Text string }
		raw, err := os.ReadFile(filepath.Join("testdata", kind+".vectors.json"))
		if err := cmp.Or(err, json.Unmarshal(raw, &texts)); err != nil {
			t.Fatal(err)
		}

		tok, whole := load(t, kind), load(t, kind)
		whole.spaced = false
		for range 1000 {
			text := ""
			for range 1 + rng.IntN(8) {
				word := make([]rune, rng.IntN(6))
				for i := range word {
					word[i] = []rune("aZ7 \n'\u00e9\u4e16\U0001f600")[rng.IntN(9)]
				}
				text += string(word) + texts[rng.IntN(len(texts))].Text
			}
			ids := idsOf(whole, text)
			whole.parts, whole.merged = cache{}, cache{}
			if got := tok.Count(text); got != len(ids) {
				t.Fatalf("%s: %q has %d tokens, want %d", kind, text, got, len(ids))
			}
		}
	}
}

func TestPromptsOfExactLength(t *testing.T) {
	for _, kind := range []string{"qwen", "llama2", "gemma", "mistral"} {
		t.Run(kind, func(t *testing.T) { exactLengths(t, load(t, kind)) })
	}
}

func exactLengths(t *testing.T, tok *Tokenizer) {
	if len(tok.Words()) < 20 {
		t.Fatalf("only %d words", len(tok.Words()))
	}
	for _, n := range []int{1, 2, 17, 500} {
		c := workload.Config{Entries: 5, Input: workload.Length{Mean: float64(n)}, Tokenizer: tok, Seed: uint64(n)}
		set := workload.Make(c)
		for i := range set.Len() {
			turn := set.At(i).Turns[0]
			var text string
			if err := json.Unmarshal(turn.Text(nil), &text); err != nil {
				t.Fatal(err)
			}
			if got := tok.Count(text); got != n || turn.Tokens != n {
				t.Errorf("a prompt of %d tokens has %d, counted as %d: %.80q", n, got, turn.Tokens, text)
			}
		}
	}
}

func TestUnsupportedFilesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "unexpected end",
		`{"model":{"type":"WordPiece","vocab":{"a":0}}}`:                                                                          "WordPiece",
		`{"model":{"type":"BPE","vocab":{"a":0},"byte_fallback":true}}`:                                                           "lacks <0x00>",
		`{"model":{"type":"Unigram","vocab":{"a":0}}}`:                                                                            `remove tokenizer`,
		`{"model":{"type":"BPE","vocab":{}}}`:                                                                                     "no vocabulary",
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`:                                                               "vocabulary lacks",
		`{"model":{"type":"BPE","vocab":{"a":-1}}}`:                                                                               "the id -1",
		`{"model":{"type":"BPE","vocab":{"a":0}}}`:                                                                                "no pre_tokenizer",
		`{"model":{"type":"BPE","vocab":{"a":0}},"pre_tokenizer":{"type":"Metaspace"}}`:                                           "Metaspace",
		`{"model":{"type":"BPE","vocab":{"a":0}},"normalizer":{"type":"Lowercase"}}`:                                              "Lowercase",
		`{"model":{"type":"BPE","vocab":{"a":0}},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}}`: "pattern",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %q", text, err, want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.model"), []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "tokenizer.model cannot be read here") ||
		!strings.Contains(err.Error(), "remove tokenizer") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("got %v", err)
	}
}

// FuzzEncode checks that decoding an encoded text returns the text.
func FuzzEncode(f *testing.F) {
	f.Add("hello world 123\n\n  x")
	f.Add("<|endoftext|>\u00e9\U0001f600")
	toks := []*Tokenizer{load(f, "gpt2"), load(f, "llama3"), load(f, "digits")}
	f.Fuzz(func(t *testing.T, text string) {
		if text != strings.ToValidUTF8(text, "") {
			return
		}
		for _, tok := range toks {
			if got := decode(tok, idsOf(tok, text)); got != text {
				t.Errorf("%q comes back as %q", text, got)
			}
		}
	})
}

func BenchmarkCount(b *testing.B) {
	tok := load(b, "llama3")
	text := strings.Repeat("a plan is a file of stages that a run works through in order. ", 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Count(text)
	}
}

// FuzzScan compares the scanners with the regular expressions that they replace, and pieces of parts of a text with
// those of the whole text.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"it's  12345 x\r\n\r\n y ", "a'LL b\u00a0c \u2003d", " 'S", "\t\ta", "I'd we're 'RE  7 9\n x \n\n", "HTTPServer  12345 Ab.c 一丁 ̇x /\r\n/ !!", "!?\n\n x",
		"\u00e9\u0301\u0661\u0662\u0663\u0664", "'\u017f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text != strings.ToValidUTF8(text, "") {
			return
		}
		for pattern, begins := range spaced {
			split, err := compiled(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if whole := split; !begins {
				split = func(out []string, s string) []string {
					for _, p := range whole(nil, s) {
						out = scanner(nextGPT2)(out, p)
					}
					return out
				}
			}

			var parts []string
			for rest := text; rest != ""; {
				n := partEnd(rest)
				parts, rest = split(parts, rest[:n]), rest[n:]
			}
			if whole := split(nil, text); !slices.Equal(parts, whole) {
				t.Errorf("%q in parts: %q, as a whole: %q", text, parts, whole)
			}
		}

		for pattern, next := range known {
			slow, err := compiled(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := scanner(next)(nil, text), slow(nil, text); !slices.Equal(a, b) {
				t.Errorf("%q: %q, the pattern has %q", text, a, b)
			}
		}
	})
}
