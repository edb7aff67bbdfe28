// Package prompts makes what requests ask: synthetic conversations of given
// lengths, repeatable by a seed, and those of a trace.
package prompts

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Tokenizer counts and makes tokens.
type Tokenizer interface {
	Encode(text string) []int
	Decode(ids []int) string
	// Words are ids of ordinary words with their blank in front.
	Words() []int
}

// Length is a distribution of lengths: a normal one, rounded up, never below 1.
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
	return 1 // practically all of the distribution is below zero
}

// Config describes synthetic conversations.
type Config struct {
	// Entries is how many conversations there are.
	Entries int
	// Input and Output are lengths of turns in tokens; an Output mean of 0 leaves
	// the length to the server.
	Input, Output Length
	// Turns is how many turns conversations have (mean 0 is 1); Delay is the time
	// to think between them, in seconds.
	Turns Length
	Delay Length
	// Prefix is the length of a text that opens first turns, out of a pool of so
	// many; 0 for none.
	Prefix, PrefixPool int
	// IDs asks for token ids instead of text, below Vocabulary.
	IDs        bool
	Vocabulary int
	// Tokenizer makes text of exact lengths; nil makes text of as many common
	// words.
	Tokenizer Tokenizer
	// Seed decides everything; 0 is a seed like any other.
	Seed uint64
}

// Turn is one turn of a conversation.
type Turn struct {
	// Text is the prompt, or IDs are.
	Text string
	IDs  []int
	// Tokens is the length of the prompt, -1 where only the server knows.
	Tokens int
	// Output is the number of tokens to ask for, 0 for the server's choice.
	Output int
	// Delay is how long to think before this turn.
	Delay time.Duration
	// History is true where the turn goes on from the turns before it.
	History bool
}

// Conversation is one entry.
type Conversation struct {
	ID    string
	Turns []Turn
	// At is when it is due in a trace, from its start.
	At time.Duration
}

// Validate reports what is wrong.
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
	// firstID keeps clear of special tokens, which most vocabularies have first.
	firstID = 256
)

// A Set is the conversations that there are to choose from.
type Set struct {
	made []Conversation // all of them, or none
	c    Config
	pool []Turn // prefixes
}

// keep is how many tokens of synthetic prompts are kept; longer sets are made
// anew whenever they are asked for, so that a long run needs no memory for them.
const keep = 200_000

// Make makes the conversations.
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

// Fixed is a set of given conversations.
func Fixed(list []Conversation) *Set {
	return &Set{made: list, c: Config{Entries: len(list)}}
}

// Len is how many conversations there are.
func (s *Set) Len() int { return s.c.Entries }

// Kept says whether At returns the same pointer for the same index.
func (s *Set) Kept() bool { return s.made != nil }

// At is conversation i; it is not to be changed. It is safe for concurrent use.
func (s *Set) At(i int) *Conversation {
	if s.made != nil {
		return &s.made[i]
	}
	c := s.make(i)
	return &c
}

// make makes conversation i, which depends on the seed and i alone.
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

// A maker makes prompts of given lengths.
type maker struct {
	c     Config
	rand  *rand.Rand
	words []int
}

// newMaker makes a maker with random numbers of its own: stream tells those of
// one seed apart.
func newMaker(c Config, stream uint64) *maker {
	m := &maker{c: c, rand: rand.New(rand.NewPCG(c.Seed, 0x70726f6d707473^stream*0x9E3779B97F4A7C15))}
	if c.Tokenizer != nil {
		m.words = c.Tokenizer.Words()
	}
	return m
}

// prompt makes a prompt of n tokens.
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
	b.Grow(6 * n) // the words' mean length and a blank
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(common[m.rand.IntN(len(common))])
	}
	return Turn{Text: b.String(), Tokens: -1}
}

// exact makes a text that encodes to n tokens. Decoding and encoding again is
// not always the identity, so the text is checked with the tokenizer and
// mended; tokens is what it comes to.
func (m *maker) exact(n int) (text string, tokens int) {
	t := m.c.Tokenizer
	ids := make([]int, n)
	for i := range ids {
		ids[i] = m.words[m.rand.IntN(len(m.words))]
	}
	for range 32 {
		text = t.Decode(ids) // the blank in front stays: words were chosen with it
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

// common are words that practically every vocabulary has as one token.
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
