package tokenizer

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse checks that a tokenizer parsed from arbitrary input encodes any text without a panic.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range seeds {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, text := range []string{
		`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`,
		`{"model":{"type":"BPE","vocab":{"a":0,"b":-1,"ab":4000000000},"merges":[["a","b"]]},"added_tokens":[{"id":9,"content":"<s>","special":true}]}`,
		`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?<!a)b+"}},{"type":"ByteLevel"}]}}`,
		`{}`, `null`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tok, err := Parse(raw)
		if err != nil {
			return
		}
		for _, text := range []string{"", "a b ab  c 123\n\n é😀", "<s>a"} {
			tok.Count(text)
		}
	})
}
