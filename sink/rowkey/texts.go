package rowkey

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// texts numbers texts: a hash table that keeps the hashes, so that growing reads
// no text, since every row of a large table may have one of its own.
type texts struct {
	seed  maphash.Seed
	words []string
	ids   []uint32   // of words
	slots []textSlot // a power of two of them
}

type textSlot struct {
	hash uint64
	at   uint32 // in words, from 1; 0 is free
}

// id is the place of the number of a word; known is false where it is new, and the
// caller fills it in.
func (t *texts) id(word string) (id *uint32, known bool) {
	if 4*(len(t.words)+1) > 3*len(t.slots) {
		t.grow(2 * len(t.slots))
	}
	h := maphash.String(t.seed, word)
	s := t.find(h, word)
	if s.at == 0 {
		t.words, t.ids = append(t.words, word), append(t.ids, 0)
		s.hash, s.at = h, uint32(len(t.words))
		return &t.ids[s.at-1], false
	}
	return &t.ids[s.at-1], true
}

func (t *texts) find(h uint64, word string) *textSlot {
	mask := uint64(len(t.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		if s := &t.slots[at]; s.at == 0 || s.hash == h && t.words[s.at-1] == word {
			return s
		}
	}
}

// reserve makes room for n words.
func (t *texts) reserve(n int) {
	t.words, t.ids = slices.Grow(t.words, max(0, n-len(t.words))), slices.Grow(t.ids, max(0, n-len(t.ids)))
	if size := slotsFor(n); size > len(t.slots) {
		t.grow(size)
	}
}

func (t *texts) grow(size int) {
	if t.slots == nil {
		t.seed = maphash.MakeSeed()
	}
	old := t.slots
	t.slots = make([]textSlot, max(64, size))
	mask := uint64(len(t.slots) - 1)
	for _, s := range old {
		if s.at == 0 {
			continue
		}
		at := s.hash & mask
		for t.slots[at].at != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = s
	}
}

// sameTexts says whether two columns have the same texts in the same rows, where
// that is cheap to see.
func sameTexts(a, b arrow.Array) bool {
	x, ok := a.(*array.String)
	y, also := b.(*array.String)
	if !ok || !also || x.Len() == 0 || x.Len() != y.Len() || x.NullN() > 0 || y.NullN() > 0 {
		return false
	}
	if !slices.Equal(x.ValueOffsets(), y.ValueOffsets()) {
		return false
	}
	return bytes.Equal(x.ValueBytes(), y.ValueBytes())
}
