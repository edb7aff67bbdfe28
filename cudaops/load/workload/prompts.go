// Package workload generates what a load consists of: conversations, synthetic or from a trace, reproducible by
// a seed, and the times when requests are due.
package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Tokenizer encodes and decodes text. It must be safe for concurrent use.
type Tokenizer interface {
	Encode(text string) []int
	Decode(ids []int) string
	// Words returns the ids of ordinary words with a leading space.
	Words() []int
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

	// Tokenizer is used to generate text of exact lengths. If nil, the text consists of as many common
	// words as tokens are needed.
	Tokenizer Tokenizer

	// Seed is the random seed. 0 is a valid seed.
	Seed uint64
}

// Turn is one turn of a conversation.
type Turn struct {
	// Text or IDs is the prompt.
	Text string
	IDs  []int

	// Tokens is the length of the prompt, or -1 if only the server can count it.
	Tokens int

	// Output is the requested number of output tokens, or 0 if the server decides.
	Output int

	// Delay is the time to wait before this turn.
	Delay time.Duration

	// History is true if the turn continues earlier turns.
	History bool
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
		return fmt.Errorf("the input has %v +- %v tokens; the mean must be at least 1 and the deviation not negative", c.Input.Mean, c.Input.StdDev)

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
	made []Conversation // all of them, or nil if they are generated on demand
	c    Config
	pool []Turn // prefixes
}

// keep is the maximum number of tokens of synthetic prompts kept in memory. The conversations of larger
// sets are generated on each access.
const keep = 200_000

// Make returns a set of synthetic conversations.
func Make(c Config) *Set {
	s := &Set{c: c}
	if c.Prefix > 0 {
		m := newMaker(c, 0x707265666978)
		for range max(c.PrefixPool, 1) {
			s.pool = append(s.pool, m.prompt(c.Prefix))
		}
	}

	if float64(c.Entries)*(c.Input.Mean+float64(c.Prefix))*max(c.Turns.Mean, 1) <= keep {
		made := make([]Conversation, c.Entries)
		for i := range made {
			made[i] = s.make(i)
		}
		s.made = made
	}

	return s
}

// Fixed returns a set of given conversations.
func Fixed(list []Conversation) *Set {
	return &Set{made: list, c: Config{Entries: len(list)}}
}

// Len returns the number of conversations.
func (s *Set) Len() int { return s.c.Entries }

// Kept reports whether At returns the same pointer for the same index.
func (s *Set) Kept() bool { return s.made != nil }

// At returns conversation i, which the caller must not change. It is safe for concurrent use.
func (s *Set) At(i int) *Conversation {
	if s.made != nil {
		return &s.made[i]
	}
	c := s.make(i)
	return &c
}

// make generates conversation i, which depends only on the config and i.
func (s *Set) make(i int) Conversation {
	c := s.c
	m := newMaker(c, uint64(i))
	out := Conversation{ID: fmt.Sprintf("session_%06d", i)}
	n := 1
	if c.Turns.Mean > 0 {
		n = c.Turns.draw(m.rand)
	}

	for k := range n {
		t := m.prompt(c.Input.draw(m.rand))
		if k == 0 && len(s.pool) > 0 {
			t = join(s.pool[m.rand.IntN(len(s.pool))], t)
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

func join(a, b Turn) Turn {
	if a.IDs != nil {
		return Turn{IDs: append(append([]int{}, a.IDs...), b.IDs...), Tokens: a.Tokens + b.Tokens}
	}

	t := Turn{Text: a.Text + " " + strings.TrimPrefix(b.Text, " "), Tokens: -1}
	if a.Tokens >= 0 && b.Tokens >= 0 {
		t.Tokens = a.Tokens + b.Tokens
	}
	return t
}

// A maker generates prompts of given lengths.
type maker struct {
	c     Config
	rand  *rand.Rand
	words []int
}

// newMaker returns a maker with an independent random stream. Makers with the same seed differ by stream.
func newMaker(c Config, stream uint64) *maker {
	m := &maker{c: c, rand: rand.New(rand.NewPCG(c.Seed, 0x70726f6d707473^stream*0x9E3779B97F4A7C15))}
	if c.Tokenizer != nil {
		m.words = c.Tokenizer.Words()
	}
	return m
}

// prompt generates a prompt of n tokens.
func (m *maker) prompt(n int) Turn {
	switch {
	case m.c.IDs:
		ids := make([]int, n)
		for i := range ids {
			ids[i] = firstID + m.rand.IntN(m.c.Vocabulary-firstID)
		}
		return Turn{IDs: ids, Tokens: n}
	case m.c.Tokenizer != nil && len(m.words) > 0:
		text, tokens := m.exact(n)
		return Turn{Text: text, Tokens: tokens}
	}

	var b strings.Builder
	b.Grow(6 * n) // mean length of the words plus a space
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(common[m.rand.IntN(len(common))])
	}

	return Turn{Text: b.String(), Tokens: -1}
}

// exact generates a text that encodes to n tokens and returns its actual length. Encoding a decoded text
// does not always give the same ids, so the text is checked and corrected up to 32 times.
func (m *maker) exact(n int) (text string, tokens int) {
	t := m.c.Tokenizer
	ids := make([]int, n)
	for i := range ids {
		ids[i] = m.words[m.rand.IntN(len(m.words))]
	}

	for range 32 {
		text = t.Decode(ids) // keep the leading space, because the words include it
		tokens = len(t.Encode(text))
		switch {
		case tokens == n || len(ids) == 0:
			return text, tokens
		case tokens > n:
			ids = ids[:max(1, len(ids)-(tokens-n))]
		default:
			for range n - tokens {
				ids = append(ids, m.words[m.rand.IntN(len(m.words))])
			}
		}
	}

	return text, tokens
}

// common are words that are a single token in practically every vocabulary.
var common = strings.Fields(`
the and for are but not you all any can had her was one our out day get has him his how man new now old see two way who
boy did its let put say she too use that with have this will your from they know want been good much some time very when
come here just like long make many more only over such take than them well were what about after again against also always
another answer around asked back became because before began being best better between book both bring brought build
called came carry cause certain change children city clear close cold complete country course cut dark days deep did
different does done door down draw during each early earth east easy eight end enough even ever every eyes face fact fall
family far farm fast father feel feet few field find fire first fish five follow food force form found four free friend
full game gave girl give glass gold gone great green ground group grow half hand happen hard head hear heart heat heavy
help high hold home horse hot hour house idea island keep kind king land language large last late later learn leave left
less letter life light line list listen little live long look lost low machine made map mark matter mean measure men might
mind minute miss money moon morning most mother mountain move music must name near need never next night north note nothing
notice number ocean off often once open order other page pair paper part pass pattern people perhaps person picture piece
place plain plan plane plant play point power problem product pull question quick rain reach read ready real red rest
river road rock room round rule run said same school science sea second seem sentence set several shape ship short should
show side simple since six size sky sleep slow small snow song soon sound south space special stand star start state stay
step still stood stop story street strong study sun sure table tail teach tell test thing think third though thought three
through today together told took top town travel tree true try turn under unit until upon usual voice wait walk war warm
watch water week weight went west wheel where which while white whole wind window winter wish woman wonder wood word work
world would write year yes young
`)
