package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// mark represents a space in SentencePiece vocabularies.
const mark = "\u2581"

// pieces are the rules of BPE vocabularies converted from SentencePiece to tokenizer.json: Llama 2,
// Mistral, Gemma and similar models. Symbols are characters, or bytes if the vocabulary lacks the
// character.
type pieces struct {
	bytes   [256]int // ids of <0x00> to <0xFF>
	prepend string   // one of the prepend schemes
	blanks  bool     // replace spaces by marks, because the normalizer does not
}

// Prepend schemes of the Metaspace pre-tokenizer.
const (
	prependAlways = "always"
	prependFirst  = "first"
	prependNever  = "never"
)

// setPieces sets up the rules for a model with byte_fallback.
func (t *Tokenizer) setPieces(f *file) error {
	p := &pieces{prepend: prependNever}
	for b := range 256 {
		id, ok := t.vocab[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			return fmt.Errorf("the model has byte_fallback, and the vocabulary lacks <0x%02X>", b)
		}
		p.bytes[b] = id
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
				p.prepend = prependAlways // older files have no scheme
				if c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
					p.prepend = prependNever
				}
			}

			if p.prepend != prependAlways && p.prepend != prependFirst && p.prepend != prependNever {
				return fmt.Errorf("the prepend_scheme %q is not known here", p.prepend)
			}

		case c.Type == "Split" && c.Pattern.String == " ":
			// The normalizer has replaced all spaces by marks.
		default:
			return fmt.Errorf("the pre-tokenizer %q of a model with byte_fallback is not known here", c.Type)
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

// marked returns the text with marks instead of spaces. first is true at the start of the whole text.
func (p *pieces) marked(text string, first bool) string {
	if p.blanks {
		text = strings.ReplaceAll(text, " ", mark)
	}
	if (p.prepend == prependAlways || p.prepend == prependFirst && first) && !strings.HasPrefix(text, mark) {
		text = mark + text
	}
	return text
}

// symbols returns the initial symbols of a piece, before any merge.
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

// replacement returns a normalizer that replaces a literal text.
func replacement(c *component) (func(string) string, error) {
	if c.Pattern.String == "" {
		return nil, errors.New("a Replace of a regular expression is not known here")
	}
	return func(s string) string { return strings.ReplaceAll(s, c.Pattern.String, c.Content) }, nil
}
