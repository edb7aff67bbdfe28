// Package tokenizer reads a model's tokenizer.json and counts tokens as the model's own tokenizer does,
// without a network and without Python. It supports byte-level BPE (Llama 3 and 4, Qwen, DeepSeek, GPT-2,
// GPT-OSS) and BPE with byte fallback as converted from SentencePiece (Llama 2, Mistral, Gemma). It returns
// an error for files that need anything else.
package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"aicplan/sink/base/fileutil"
)

// A Tokenizer counts the tokens of texts. It is safe for concurrent use.
type Tokenizer struct {
	vocab        map[string]int
	tokens       []string // by id, in the byte alphabet
	merges       map[pair]rank
	ignoreMerges bool
	added        []added   // longest first
	firstBytes   [256]bool // first bytes of added tokens
	normalize    func(string) string
	split        []splitter
	prefixSpace  bool
	spaced       bool    // a piece begins at each space after another character
	pieces       *pieces // nil for byte-level BPE

	parts, merged cache // ids of parts of a text between such spaces, and of pieces
	words         []string
}

type pair struct{ a, b int }

type rank struct{ order, id int }

type added struct {
	text string
	id   int
}

// file contains the parts of a tokenizer.json that are used.
type file struct {
	Added []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
	} `json:"added_tokens"`
	Normalizer   *component `json:"normalizer"`
	PreTokenizer *component `json:"pre_tokenizer"`
	Model        struct {
		Type         string            `json:"type"`
		Vocab        map[string]int    `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
		IgnoreMerges bool              `json:"ignore_merges"`
		ByteFallback bool              `json:"byte_fallback"`
		Prefix       string            `json:"continuing_subword_prefix"`
		Suffix       string            `json:"end_of_word_suffix"`
	} `json:"model"`
}

// component is a normalizer or pre-tokenizer.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Pattern       struct {
		Regex  string `json:"Regex"`
		String string `json:"String"`
	} `json:"pattern"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
	Individual     bool   `json:"individual_digits"`

	// Fields of SentencePiece models.
	Prepend       string `json:"prepend"`
	Content       string `json:"content"`
	Replacement   string `json:"replacement"`
	PrependScheme string `json:"prepend_scheme"`
	Split         *bool  `json:"split"`
}

// maxFile limits the size of a tokenizer.json in bytes.
const maxFile = 256 << 20

// Load reads a tokenizer.json file, or the one in a model's folder.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
		info, err = os.Stat(path)
	}

	if errors.Is(err, fs.ErrNotExist) {
		if other := others(filepath.Dir(path)); other != "" {
			return nil, fmt.Errorf(`there is no %s, and %s cannot be read here; %s`, path, other, remedy)
		}
		return nil, fmt.Errorf("there is no %s; give the folder of the model's tokenizer.json", path)
	}

	if err != nil {
		return nil, err
	}

	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d MiB; that is no tokenizer", path, info.Size()>>20)
	}

	raw, err := fileutil.ReadText(path)
	if err != nil {
		return nil, err
	}

	t, err := Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return t, nil
}

// remedy lists what users can do about an unsupported tokenizer.
const remedy = `known is a tokenizer.json with BPE (of bytes, or with byte_fallback as models of SentencePiece have ` +
	`it): ` +
	`take the one of the model's repository, or save one (transformers: ` +
	`AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)), ` +
	`or remove tokenizer to use the counts of the server`

// others returns the name of an unsupported tokenizer file in the folder, or "".
func others(dir string) string {
	for _, name := range []string{"tokenizer.model", "tokenizer.model.v3", "spiece.model", "tekken.json",
		"vocab.json", "vocab.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return name
		}
	}
	return ""
}

// Parse parses the text of a tokenizer.json.
func Parse(raw []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}

	m := &f.Model
	switch {
	case m.Type != "BPE" && !(m.Type == "" && len(m.Merges) > 0):
		return nil, fmt.Errorf("the model is of type %q; %s", m.Type, remedy)
	case m.Prefix != "" || m.Suffix != "":
		return nil, fmt.Errorf("the model marks parts of words; %s", remedy)
	case len(m.Vocab) == 0:
		return nil, errors.New("the model has no vocabulary")
	}

	t := &Tokenizer{vocab: m.Vocab, ignoreMerges: m.IgnoreMerges, merges: make(map[pair]rank, len(m.Merges))}
	if err := t.setTokens(&f); err != nil {
		return nil, err
	}

	if err := t.setMerges(m.Merges); err != nil {
		return nil, err
	}

	var err error
	if t.normalize, err = normalizer(f.Normalizer); err != nil {
		return nil, err
	}

	setSplit := func() error { return t.setSplit(f.PreTokenizer) }
	if m.ByteFallback {
		setSplit = func() error { return t.setPieces(&f) }
	}

	if err := setSplit(); err != nil {
		return nil, err
	}

	t.findWords()
	return t, nil
}

// maxID is the largest accepted token id. Larger ids indicate a broken file.
const maxID = 1 << 24

func (t *Tokenizer) setTokens(f *file) error {
	most := -1
	for text, id := range t.vocab {
		if id < 0 || id > maxID {
			return fmt.Errorf("token %q has the id %d", text, id)
		}
		most = max(most, id)
	}

	t.tokens = make([]string, most+1)
	for text, id := range t.vocab {
		t.tokens[id] = text
	}

	for _, a := range f.Added {
		if a.Content == "" || a.ID < 0 || a.ID > maxID {
			return fmt.Errorf("the added token %q has the id %d", a.Content, a.ID)
		}
		t.added = append(t.added, added{a.Content, a.ID})
		t.firstBytes[a.Content[0]] = true
	}

	slices.SortStableFunc(t.added, func(a, b added) int { return cmp.Compare(len(b.text), len(a.text)) })
	return nil
}

func (t *Tokenizer) setMerges(list []json.RawMessage) error {
	for i, raw := range list {
		var parts []string
		if err := json.Unmarshal(raw, &parts); err != nil {
			var one string
			if err := json.Unmarshal(raw, &one); err != nil {
				return fmt.Errorf("merge %d is %s", i, raw)
			}
			parts = strings.SplitN(one, " ", 2)
		}

		if len(parts) != 2 {
			return fmt.Errorf("merge %d is %s", i, raw)
		}

		a, okA := t.vocab[parts[0]]
		b, okB := t.vocab[parts[1]]
		id, ok := t.vocab[parts[0]+parts[1]]
		if !okA || !okB || !ok {
			return fmt.Errorf("merge %d, %s, names tokens that the vocabulary lacks", i, raw)
		}

		if _, twice := t.merges[pair{a, b}]; !twice {
			t.merges[pair{a, b}] = rank{i, id}
		}
	}

	return nil
}

func normalizer(c *component) (func(string) string, error) {
	if c == nil {
		return nil, nil
	}

	switch c.Type {
	case "NFC":
		return norm.NFC.String, nil

	case "NFKC":
		return norm.NFKC.String, nil

	case "Prepend":
		return func(s string) string { return c.Prepend + s }, nil

	case "Replace":
		return replacement(c)

	case "Sequence":
		var all []func(string) string
		for i := range c.Normalizers {
			f, err := normalizer(&c.Normalizers[i])
			if err != nil {
				return nil, err
			}
			if f != nil {
				all = append(all, f)
			}
		}

		return func(s string) string {
			for _, f := range all {
				s = f(s)
			}
			return s
		}, nil
	}

	return nil, fmt.Errorf("the normalizer %q is not known here", c.Type)
}

// Count returns the number of tokens of a text, without tokens that only a chat template adds.
func (t *Tokenizer) Count(text string) (n int) {
	t.encode(text, func(ids []int) { n += len(ids) })
	return n
}

// encode calls add with the token ids of a text, in order and part by part. add must not change them.
func (t *Tokenizer) encode(text string, add func(ids []int)) {
	start := 0
	for i := 0; i < len(text); {
		if t.firstBytes[text[i]] {
			if a, ok := t.addedAt(text[i:]); ok {
				t.plain(text[start:i], start == 0, add)
				add([]int{a.id})
				i += len(a.text)
				start = i
				continue
			}
		}
		i++
	}

	t.plain(text[start:], start == 0, add)
}

func (t *Tokenizer) addedAt(text string) (added, bool) {
	for _, a := range t.added {
		if strings.HasPrefix(text, a.text) {
			return a, true
		}
	}
	return added{}, false
}

// plain encodes text without added tokens. first is true at the start of the whole text.
func (t *Tokenizer) plain(text string, first bool, add func(ids []int)) {
	if text == "" {
		return
	}

	if t.normalize != nil {
		text = t.normalize(text)
	}

	if t.pieces != nil {
		text = t.pieces.marked(text, first)
	}

	if t.prefixSpace && !strings.HasPrefix(text, " ") {
		text = " " + text
	}

	for text != "" {
		n := len(text)
		if t.spaced {
			n = partEnd(text)
		}
		add(t.parts.get(text[:n], t.encodePart))
		text = text[n:]
	}
}

// partEnd returns the index of the first space after another ASCII character, or the length of the text.
func partEnd(text string) int {
	for i := 1; i < len(text); i++ {
		n := strings.IndexByte(text[i:], ' ')
		if n < 0 {
			break
		}
		if i += n; text[i-1] > ' ' && text[i-1] < utf8.RuneSelf {
			return i
		}
	}
	return len(text)
}

// encodePart returns the ids of a part of a text.
func (t *Tokenizer) encodePart(text string) []int {
	pieces := []string{text}
	for _, s := range t.split {
		next := make([]string, 0, len(text)/3+1) // most pieces are longer
		for _, p := range pieces {
			next = s(next, p)
		}
		pieces = next
	}

	out := make([]int, 0, len(pieces))
	for _, p := range pieces {
		out = append(out, t.piece(p)...)
	}
	return out
}

// piece returns the ids of one piece. The caller must not change the slice.
func (t *Tokenizer) piece(p string) []int { return t.merged.get(p, t.encodePiece) }

// encodePiece returns the ids of one piece.
func (t *Tokenizer) encodePiece(p string) []int {
	if t.pieces == nil {
		p = toAlphabet(p)
	}
	if id, ok := t.vocab[p]; ok && t.ignoreMerges {
		return []int{id}
	}
	return t.merge(p)
}

// A cache keeps the ids of texts. It is safe for concurrent use.
type cache struct {
	mu  sync.RWMutex
	ids map[string][]int
}

// Limits of a cache: number of entries and length of a text in bytes.
const (
	maxCached     = 1 << 16
	maxCachedText = 64
)

// get returns the ids of a text. The caller must not change the slice.
func (c *cache) get(text string, encode func(string) []int) []int {
	if len(text) > maxCachedText {
		return encode(text)
	}

	c.mu.RLock()
	ids, ok := c.ids[text]
	c.mu.RUnlock()
	if ok {
		return ids
	}

	ids = encode(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || len(c.ids) >= maxCached {
		c.ids = map[string][]int{}
	}
	c.ids[strings.Clone(text)] = ids
	return ids
}

// Words returns the words of lowercase ASCII letters that are a single token after a space.
func (t *Tokenizer) Words() []string { return t.words }

func (t *Tokenizer) findWords() {
	for id, text := range t.tokens {
		blank, before := "\u0120", " " // the character of the space
		if t.pieces != nil {
			blank, before = mark, mark
		}
		word, ok := strings.CutPrefix(text, blank)
		if !ok || len(word) < 2 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			continue
		}
		if ids := t.piece(before + word); len(ids) == 1 && ids[0] == id {
			t.words = append(t.words, word)
		}
	}
}
