package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode"

	"github.com/dlclark/regexp2"
)

// A splitter appends the pieces of a text to out.
type splitter func(out []string, text string) []string

// gpt2 is the pattern of the ByteLevel pre-tokenizer.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// Parts of patterns that distinguish upper case.
const (
	upper     = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower     = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	short     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	casedRest = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// spaced are patterns whose matches contain no space after a character that is not whitespace. The value is true if a
// piece begins at each such space. A text can be divided there and its parts can be encoded one by one.
var spaced = map[string]bool{
	gpt2:                               true,
	modern + `\p{N}{1,3}` + modernRest: true, // Llama 3
	modern + `\p{N}` + modernRest:      true, // Qwen
	// GPT-OSS and Llama 4
	upper + `*` + lower + `+` + short + `|` + upper + `+` + lower + `*` + short + `|\p{N}{1,3}` + casedRest: true,
	// Mistral Nemo
	upper + `*` + lower + `+|` + upper + `+` + lower + `*|\p{N}` + casedRest: true,
	// DeepSeek, which has the two below as well
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
		" ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+": true,
	`\p{N}{1,3}`:   false,
	`[一-龥぀-ゟ゠-ヿ]+`: false,
}

// matchTimeout bounds the matching of a pattern from a tokenizer file, so that it cannot hang a run.
const matchTimeout = 10 * time.Second

func (t *Tokenizer) setSplit(c *component) error {
	if c == nil {
		return errors.New("there is no pre_tokenizer; byte-level BPE is known here")
	}

	local := true // the patterns are all in spaced
	list := []component{*c}
	if c.Type == "Sequence" {
		list = c.PreTokenizers
	}

	use := func(text string) error {
		s, err := pattern(text)
		t.split = append(t.split, s)
		begins, ok := spaced[text]
		t.spaced = t.spaced || begins
		local = local && ok
		return err
	}

	bytes := false
	for _, c := range list {
		switch c.Type {
		case "ByteLevel":
			bytes = true
			t.prefixSpace = t.prefixSpace || c.AddPrefixSpace == nil || *c.AddPrefixSpace
			if c.UseRegex == nil || *c.UseRegex {
				if err := use(gpt2); err != nil {
					return err
				}
			}

		case "Split":
			if c.Behavior != "Isolated" && !(c.Behavior == "Removed" && c.Invert) {
				return fmt.Errorf("a Split with the behavior %q is not known here", c.Behavior)
			}
			if err := use(cmp.Or(c.Pattern.Regex, regexp2.Escape(c.Pattern.String))); err != nil {
				return err
			}

		case "Digits":
			t.split = append(t.split, digits(c.Individual))

		default:
			return fmt.Errorf("the pre-tokenizer %q is not known here; byte-level BPE is", c.Type)
		}
	}

	t.spaced = t.spaced && local
	if !bytes {
		return errors.New("the pre_tokenizer has no ByteLevel; byte-level BPE is known here")
	}

	return nil
}

// pattern returns a splitter that isolates matches: each match and each text between matches is a piece.
func pattern(text string) (splitter, error) {
	if next, ok := known[text]; ok {
		return scanner(next), nil
	}
	return compiled(text)
}

// compiled returns a splitter for any pattern.
func compiled(text string) (splitter, error) {
	// Go's regexp has no lookahead, which these patterns need.
	re, err := regexp2.Compile(text, regexp2.Unicode)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", text, err)
	}

	re.MatchTimeout = matchTimeout
	return func(out []string, s string) []string {
		runes := []rune(s)
		at := 0
		m, err := re.FindRunesMatch(runes)

		for ; err == nil && m != nil; m, err = re.FindNextMatch(m) {
			if m.Index > at {
				out = append(out, string(runes[at:m.Index]))
			}
			if m.Length > 0 {
				out = append(out, string(runes[m.Index:m.Index+m.Length]))
			}
			at = m.Index + m.Length
		}

		if at < len(runes) {
			out = append(out, string(runes[at:]))
		}

		return out
	}, nil
}

// digits returns a splitter that isolates digits, one by one or in groups.
func digits(individual bool) splitter {
	return func(out []string, s string) []string {
		start, was := 0, false
		for i, r := range s {
			is := unicode.IsNumber(r)
			if i > start && (is != was || is && individual) {
				out = append(out, s[start:i])
				start = i
			}
			was = is
		}
		if start < len(s) {
			out = append(out, s[start:])
		}
		return out
	}
}
