package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// mark stands for a blank in vocabularies of SentencePiece.
const mark = "\u2581"

// pieces are the rules of vocabularies that come from SentencePiece's BPE and have
// a tokenizer.json: Llama 2, Mistral, Gemma and their kin. Symbols are characters,
// and bytes where the vocabulary lacks one.
type pieces struct {
	bytes   [256]int // ids of <0x00> to <0xFF>
	byteOf  map[int]byte
	prepend string // always, first or never
	blanks  bool   // blanks become marks, which the normalizer has not done
	strip   bool   // decoding drops the first blank
}

// Schemes of the Metaspace pre-tokenizer.
const (
	prependAlways = "always"
	prependFirst  = "first"
	prependNever  = "never"
)

// setPieces reads what a model with byte_fallback has.
func (t *Tokenizer) setPieces(f *file) error {
	p := &pieces{byteOf: map[int]byte{}, prepend: prependNever}
	for b := range 256 {
		id, ok := t.vocab[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			return fmt.Errorf("the model has byte_fallback, and the vocabulary lacks <0x%02X>", b)
		}
		p.bytes[b], p.byteOf[id] = id, byte(b)
	}
	if c := f.PreTokenizer; c != nil {
		switch {
		case c.Type == "Metaspace":
			if c.Replacement != mark {
				return fmt.Errorf("a Metaspace that writes %q for blanks is not known here", c.Replacement)
			}
			if c.Split == nil || *c.Split {
				t.split = append(t.split, beforeMarks)
			}
			p.blanks, p.prepend = true, c.PrependScheme
			if p.prepend == "" {
				p.prepend = prependAlways // files from before there were schemes
				if c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
					p.prepend = prependNever
				}
			}
			if p.prepend != prependAlways && p.prepend != prependFirst && p.prepend != prependNever {
				return fmt.Errorf("the prepend_scheme %q is not known here", p.prepend)
			}
		case c.Type == "Split" && c.Pattern.String == " ":
			// There are no blanks left: the normalizer has made marks of them.
		default:
			return fmt.Errorf("the pre-tokenizer %q of a model with byte_fallback is not known here", c.Type)
		}
	}
	if f.Decoder != nil {
		for _, d := range append(f.Decoder.Decoders, *f.Decoder) {
			p.strip = p.strip || d.Type == "Strip" && d.Start > 0 || d.Type == "Metaspace" && p.prepend != prependNever
		}
	}
	t.pieces = p
	return nil
}

// beforeMarks splits text before each mark.
func beforeMarks(out []string, text string) []string {
	for text != "" {
		_, size := utf8.DecodeRuneInString(text)
		i := strings.Index(text[size:], mark)
		if i < 0 {
			return append(out, text)
		}
		out, text = append(out, text[:size+i]), text[size+i:]
	}
	return out
}

// marked is a text with marks for blanks. first says that nothing stands before it.
func (p *pieces) marked(text string, first bool) string {
	if p.blanks {
		text = strings.ReplaceAll(text, " ", mark)
	}
	if (p.prepend == prependAlways || p.prepend == prependFirst && first) && !strings.HasPrefix(text, mark) {
		text = mark + text
	}
	return text
}

// symbols are the ids that a piece begins as, before any merge.
func (t *Tokenizer) symbols(text string) []symbol {
	var list []symbol
	add := func(id int) { list = append(list, symbol{id, len(list) - 1, len(list) + 1}) }
	if t.pieces == nil {
		for _, r := range text {
			if id, ok := t.vocab[string(r)]; ok {
				add(id)
			}
		}
		return list
	}
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			size = 1
		}
		if id, ok := t.vocab[text[i:i+size]]; ok {
			add(id)
			continue
		}
		for _, b := range []byte(text[i : i+size]) {
			add(t.pieces.bytes[b])
		}
	}
	return list
}

// decode writes the text of ids.
func (t *Tokenizer) decodePieces(ids []int) string {
	p := t.pieces
	var b strings.Builder
	var run []byte // bytes that make characters together
	flush := func() {
		if utf8.Valid(run) {
			b.Write(run)
		} else {
			b.WriteString(strings.Repeat(string(utf8.RuneError), len(run)))
		}
		run = run[:0]
	}
	for _, id := range ids {
		if c, ok := p.byteOf[id]; ok {
			run = append(run, c)
			continue
		}
		flush()
		if text, ok := t.addedByID[id]; ok {
			b.WriteString(text)
		} else if id >= 0 && id < len(t.tokens) {
			b.WriteString(strings.ReplaceAll(t.tokens[id], mark, " "))
		}
	}
	flush()
	text := b.String()
	if p.strip {
		text = strings.TrimPrefix(text, " ")
	}
	return text
}

// replacement is a normalizer that writes one text for another.
func replacement(c *component) (func(string) string, error) {
	if c.Pattern.String == "" {
		return nil, errors.New("a Replace of a regular expression is not known here")
	}
	return func(s string) string { return strings.ReplaceAll(s, c.Pattern.String, c.Content) }, nil
}
