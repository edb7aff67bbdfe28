package tokenizer

import (
	"container/heap"
	"strings"
)

// letterOf maps every byte to a printable character, so that a vocabulary can be text. As in GPT-2, printable Latin-1
// bytes map to themselves and the others to U+0100 and up.
var letterOf = func() (t [256]rune) {
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		t[b] = r
	}
	return t
}()

func toAlphabet(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteRune(letterOf[s[i]])
	}
	return b.String()
}

// A symbol is a part of a piece. prev and next are indices, -1 at the ends.
type symbol struct{ id, prev, next int }

// A candidate is a pair of adjacent symbols that can be merged.
type candidate struct {
	rank
	at   int // index of the left symbol
	pair pair
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	if c[i].order != c[j].order {
		return c[i].order < c[j].order
	}
	return c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	old := *c
	x := old[len(old)-1]
	*c = old[:len(old)-1]
	return x
}

// merge encodes a piece by merging adjacent symbols in the order of the merge list. Byte-level BPE drops
// characters that are not in the vocabulary.
func (t *Tokenizer) merge(text string) []int {
	list := t.symbols(text)
	if len(list) == 0 {
		return nil
	}

	list[len(list)-1].next = -1
	var queue candidates
	propose := func(i int) {
		if i < 0 || list[i].next < 0 {
			return
		}
		p := pair{list[i].id, list[list[i].next].id}
		if r, ok := t.merges[p]; ok {
			heap.Push(&queue, candidate{r, i, p})
		}
	}

	for i := range list {
		propose(i)
	}

	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		left := &list[c.at]
		// Either symbol may have been merged in the meantime.
		if left.id != c.pair.a || left.next < 0 || list[left.next].id != c.pair.b {
			continue
		}

		right := &list[left.next]
		left.id = c.rank.id
		left.next, right.id = right.next, -1
		if left.next >= 0 {
			list[left.next].prev = c.at
		}

		propose(left.prev)
		propose(c.at)
	}

	var out []int
	for i := 0; i >= 0; i = list[i].next {
		out = append(out, list[i].id)
	}

	return out
}
