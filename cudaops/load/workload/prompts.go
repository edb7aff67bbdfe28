// Package workload generates what a load consists of: conversations, synthetic or from a trace, reproducible by
// a seed, and the times when requests are due.
package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load/openai"
)

// Tokenizer encodes and decodes text. It must be safe for concurrent use.
type Tokenizer interface {
	Encode(text string) []int
	Decode(ids []int) string
	// Words returns ordinary words that are a single token after a space.
	Words() []string
}

// Length is a normal distribution of lengths, rounded up, never below 1.
type Length struct{ Mean, StdDev float64 }

func (l Length) draw(r *rand.Rand) int {
	if l.StdDev <= 0 {
		return max(1, int(math.Ceil(l.Mean)))
	}

	for range 100 {
		if v := l.Mean + l.StdDev*r.NormFloat64(); v > 0 {
			return int(math.Ceil(v))
		}
	}
	return 1 // nearly all of the distribution is below zero
}

// Config describes synthetic conversations.
type Config struct {
	// Entries is the number of conversations.
	Entries int

	// Input and Output are the lengths of turns in tokens. If the mean of Output is 0, the server decides
	// the length.
	Input, Output Length

	// Turns is the number of turns per conversation; a mean of 0 means 1. Delay is the time before each
	// later turn, in seconds.
	Turns Length
	Delay Length

	// Prefix is the length of a text that starts the first turns, chosen from PrefixPool texts. 0 disables
	// prefixes.
	Prefix, PrefixPool int

	// IDs generates token ids below Vocabulary instead of text.
	IDs        bool
	Vocabulary int

	// Documents is the number of texts of a request, each as long as Input, if it is not 0. The prompt is then a query of
	// Query tokens.
	Documents, Query int

	// Images is the number of generated images of a request, each with Width and Height.
	Images, Width, Height int

	// Tokenizer is used to generate text of exact lengths. If nil, the text consists of as many common
	// words as tokens are needed.
	Tokenizer Tokenizer

	// Seed is the random seed. 0 is a valid seed.
	Seed uint64

	// Opened, if not nil, is called with each file that a dataset names.
	Opened func(path string)
}

// Turn is one turn of a conversation.
type Turn struct {
	// Text or IDs is the prompt.
	Text string
	IDs  []int

	// Messages are recorded messages that replace the text, with Tools. They are JSON.
	Messages []json.RawMessage
	Tools    json.RawMessage

	// Documents are the texts of embeddings and rankings. Images are data URLs.
	Documents []string
	Images    []string

	// Tokens is the length of the prompt, or -1 if only the server can count it.
	Tokens int

	// Output is the requested number of output tokens, or 0 if the server decides.
	Output int

	// Delay is the time to wait before this turn.
	Delay time.Duration

	// History is true if the turn continues earlier turns.
	History bool
}

// Prompt returns the turn as part of a request.
func (t *Turn) Prompt() openai.Prompt {
	p := openai.Prompt{Text: t.Text, IDs: t.IDs, Tools: t.Tools, Documents: t.Documents}
	for _, raw := range t.Messages {
		p.Messages = append(p.Messages, openai.Message{Raw: raw})
	}
	if t.Messages == nil {
		p.Messages = []openai.Message{{Role: "user", Content: t.Text, Images: t.Images}}
	}
	return p
}

// Conversation is one entry of a set.
type Conversation struct {
	ID    string
	Turns []Turn
	// At is the time when it is due in a trace, relative to the start, or -1 without a timestamp.
	At time.Duration
}

// Validate returns an error if a field is out of range.
func (c Config) Validate() error {
	switch {
	case c.Entries < 1:
		return fmt.Errorf("there are %d entries; at least 1 is needed", c.Entries)

	case !(c.Input.Mean >= 1) || !(c.Input.StdDev >= 0):
		return fmt.Errorf(
			"the input has %v +- %v tokens; the mean must be at least 1 and the deviation not negative",
			c.Input.Mean,
			c.Input.StdDev,
		)

	case !(c.Output.Mean >= 0) || !(c.Output.StdDev >= 0):
		return fmt.Errorf("the output has %v +- %v tokens; neither may be negative", c.Output.Mean, c.Output.StdDev)

	case c.Input.Mean > maxTokens || c.Output.Mean > maxTokens:
		return fmt.Errorf("a length of more than %d tokens is more than any model accepts", maxTokens)

	case !(c.Turns.Mean >= 0) || !(c.Turns.StdDev >= 0) || !(c.Delay.Mean >= 0) || !(c.Delay.StdDev >= 0):
		return errors.New("turns and their delays must not be negative")

	case c.Prefix < 0 || c.PrefixPool < 0:
		return errors.New("prefixes must not be negative")

	case c.IDs && c.Vocabulary < minVocabulary:
		return fmt.Errorf("the vocabulary has %d ids; token ids need at least %d", c.Vocabulary, minVocabulary)
	}

	return nil
}

const (
	maxTokens     = 10_000_000
	minVocabulary = 512
	// firstID skips special tokens, which come first in most vocabularies.
	firstID = 256
)

// A Set contains the conversations to choose from.
type Set struct {
	fixed []Conversation // nil if conversations are generated
	c     Config
	v     vocabulary
	pool  []Turn // prefixes
}

// Make returns a set of synthetic conversations.
func Make(c Config) *Set {
	s := &Set{c: c, v: newVocabulary(c.Tokenizer)}
	if c.Prefix > 0 {
		m := newMaker(c, s.v, 0x707265666978)
		for range max(c.PrefixPool, 1) {
			s.pool = append(s.pool, m.prompt(c.Prefix))
		}
	}
	return s
}

// Fixed returns a set of given conversations.
func Fixed(list []Conversation) *Set {
	return &Set{fixed: list, c: Config{Entries: len(list)}}
}

// Len returns the number of conversations.
func (s *Set) Len() int { return s.c.Entries }

// At returns conversation i, which the caller must not change. Synthetic conversations are generated by each call. It
// is safe for concurrent use.
func (s *Set) At(i int) *Conversation {
	if s.fixed != nil {
		return &s.fixed[i]
	}
	c := s.make(i)
	return &c
}

// make generates conversation i, which depends only on the config and i.
func (s *Set) make(i int) Conversation {
	c := s.c
	m := newMaker(c, s.v, uint64(i))
	number := strconv.Itoa(i)
	out := Conversation{ID: "session_" + "000000"[min(len(number), 6):] + number}
	n := 1
	if c.Turns.Mean > 0 {
		n = c.Turns.draw(m.rand)
	}

	for k := range n {
		length := c.Input.draw(m.rand)
		if c.Documents > 0 {
			length = max(c.Query, 1)
		}

		t := m.prompt(length)
		for range c.Documents {
			d := m.prompt(c.Input.draw(m.rand))
			t.Documents = append(t.Documents, d.Text)
			if t.Tokens >= 0 {
				t.Tokens += d.Tokens
			}
		}

		for range c.Images {
			t.Images = append(t.Images, m.image(c.Width, c.Height))
		}

		if k == 0 && len(s.pool) > 0 {
			first := joined([]Turn{s.pool[m.rand.IntN(len(s.pool))], t})
			t.Text, t.IDs, t.Tokens = first.Text, first.IDs, first.Tokens
		}

		if c.Output.Mean > 0 {
			t.Output = c.Output.draw(m.rand)
		}

		if k > 0 {
			t.History = true
			if d := c.Delay.Mean + c.Delay.StdDev*m.rand.NormFloat64(); c.Delay.Mean > 0 && d > 0 {
				t.Delay = time.Duration(d * float64(time.Second))
			}
		}

		out.Turns = append(out.Turns, t)
	}

	return out
}

// joined returns one prompt of the parts, which are all text or all token ids.
func joined(parts []Turn) Turn {
	var t Turn
	var text strings.Builder
	for i, p := range parts {
		t.IDs = append(t.IDs, p.IDs...)
		if t.Tokens += p.Tokens; p.Tokens < 0 {
			t.Tokens = math.MinInt32 // unknown
		}
		if i > 0 && p.IDs == nil {
			text.WriteByte(' ')
			p.Text = strings.TrimPrefix(p.Text, " ")
		}
		text.WriteString(p.Text)
	}

	t.Text, t.Tokens = text.String(), max(t.Tokens, -1)
	return t
}

// A vocabulary is the words that prompts consist of.
type vocabulary struct {
	words []string
	lead  string // text before the first word
	// exact is true if every prompt has one token for each word. Otherwise its tokens have to be counted.
	exact bool
	// blocks are random texts of blockWords words, each with a space before it.
	blocks []string
}

// Long prompts consist of blocks, which are faster to copy than single words. They begin with ownWords words that are
// drawn singly, so that no two prompts have a common prefix which a server could cache.
const (
	blockWords = 32
	maxBlocks  = 1024
	ownWords   = 16
)

// maxWords limits the number of words of a vocabulary.
const maxWords = 4096

// newVocabulary returns the words of a tokenizer, or common words if it is nil or has none. Tokenizers split text at
// spaces, so that words have the same tokens in any order. This is checked once for all words, which makes it
// unnecessary to count the tokens of each prompt.
func newVocabulary(t Tokenizer) vocabulary {
	v := vocabulary{words: common, exact: true}
	if t != nil && len(t.Words()) > 0 {
		v.words = t.Words()[:min(len(t.Words()), maxWords)]
		all := strings.Join(v.words, " ")
		for _, v.lead = range []string{" ", ""} {
			if v.exact = len(t.Encode(v.lead+all)) == len(v.words); v.exact {
				break
			}
		}
	}

	m := maker{v: v, rand: rand.New(rand.NewPCG(0x626c6f636b73, 1))}
	for range maxBlocks {
		v.blocks = append(v.blocks, " "+strings.TrimPrefix(m.text(blockWords), v.lead))
	}
	return v
}

// A maker generates prompts of given lengths.
type maker struct {
	c    Config
	v    vocabulary
	rand *rand.Rand
}

// newMaker returns a maker with an independent random stream. Makers with the same seed differ by stream.
func newMaker(c Config, v vocabulary, stream uint64) *maker {
	return &maker{c: c, v: v, rand: rand.New(rand.NewPCG(c.Seed, 0x70726f6d707473^stream*0x9E3779B97F4A7C15))}
}

// prompt generates a prompt of n tokens.
func (m *maker) prompt(n int) Turn {
	if m.c.IDs {
		ids := make([]int, n)
		for i := range ids {
			ids[i] = firstID + m.rand.IntN(m.c.Vocabulary-firstID)
		}
		return Turn{IDs: ids, Tokens: n}
	}

	t := Turn{Text: m.text(n), Tokens: -1}
	if m.c.Tokenizer != nil {
		t.Tokens = n
	}

	if !m.v.exact {
		t.Text, t.Tokens = m.corrected(t.Text, n)
	}
	return t
}

// text returns a text of n words.
func (m *maker) text(n int) string {
	var b strings.Builder
	b.Grow(7 * n) // mean length of the words plus a space
	b.WriteString(m.v.lead)

	for i := 0; i < n; i++ {
		if i >= ownWords && n-i >= blockWords {
			b.WriteString(m.v.blocks[m.rand.IntN(len(m.v.blocks))])
			i += blockWords - 1
			continue
		}

		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(m.v.words[m.rand.IntN(len(m.v.words))])
	}
	return b.String()
}

// corrected adds or removes words until the text has n tokens, and returns it with its number of tokens. It gives up
// after 32 attempts.
func (m *maker) corrected(text string, n int) (string, int) {
	tokens := 0
	for range 32 {
		tokens = len(m.c.Tokenizer.Encode(text))
		switch {
		case tokens < n:
			text += " " + strings.TrimPrefix(m.text(n-tokens), " ")
			continue
		case tokens > n:
			if words := strings.Split(text, " "); len(words) > tokens-n+1 {
				text = strings.Join(words[:len(words)-(tokens-n)], " ")
				continue
			}
		}
		break
	}
	return text, tokens
}

// common are words that are a single token in practically every vocabulary.
var common = strings.Fields(`
the and for are but not you all any can had her was one our out day get has him his how man new now old see two way
who boy did its let put say she too use that with have this will your from they know want been good much some time
very when come here just like long make many more only over such take than them well were what about after again
against also always another answer around asked back became because before began being best better between book both
bring brought build called came carry cause certain change children city clear close cold complete country course cut
dark days deep did different does done door down draw during each early earth east easy eight end enough even ever
every eyes face fact fall family far farm fast father feel feet few field find fire first fish five follow food force
form found four free friend full game gave girl give glass gold gone great green ground group grow half hand happen
hard head hear heart heat heavy help high hold home horse hot hour house idea island keep kind king land language
large last late later learn leave left less letter life light line list listen little live long look lost low machine
made map mark matter mean measure men might mind minute miss money moon morning most mother mountain move music must
name near need never next night north note nothing notice number ocean off often once open order other page pair paper
part pass pattern people perhaps person picture piece place plain plan plane plant play point power problem product
pull question quick rain reach read ready real red rest river road rock room round rule run said same school science
sea second seem sentence set several shape ship short should show side simple since six size sky sleep slow small snow
song soon sound south space special stand star start state stay step still stood stop story street strong study sun
sure table tail teach tell test thing think third though thought three through today together told took top town
travel tree true try turn under unit until upon usual voice wait walk war warm watch water week weight went west wheel
where which while white whole wind window winter wish woman wonder wood word work world would write year yes young
`)
