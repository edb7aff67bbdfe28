package rowkey

import (
	mathbits "math/bits"
)

// sampled is after how many rows the tables are made large enough for all rows,
// where each row up to then had a key of its own: growing step by step takes as long
// again.
const sampled = 4096

// pairs numbers pairs of numbers: a hash table without pointers, since every row
// of a large table may have a pair of its own.
type pairs struct {
	n     int
	slots []pairSlot // a power of two of them
	// Where the values of a grid are combined there is a place for every pair instead:
	// the number of the second ones, and one more than the number of each pair.
	stride uint32
	places []uint32
}

type pairSlot struct {
	pair uint64
	id   uint32 // one more than the number; 0 is free
}

// direct says whether pairs of left and right numbers have places, in a table of
// so many rows; else those that have are moved into slots.
func (p *pairs) direct(left, right, rows int) bool {
	switch {
	case p.places != nil:
		if right <= int(p.stride) && left*int(p.stride) <= len(p.places) {
			return true
		}
		places := p.places
		p.places, p.n = nil, 0
		inOrder := make([]uint64, len(places))
		for at, id := range places {
			if id != 0 {
				inOrder[id-1] = uint64(at)/uint64(p.stride)<<32 | uint64(at)%uint64(p.stride)
				p.n++
			}
		}
		inOrder, p.n = inOrder[:p.n], 0
		for _, pair := range inOrder {
			p.number(pair)
		}
	case p.n == 0 && right > 0 && left <= 2*rows/right:
		p.places, p.stride = make([]uint32, left*right), uint32(right)
		return true
	}
	return false
}

func (p *pairs) numberDirect(a, b uint32) uint32 {
	at := &p.places[int(a)*int(p.stride)+int(b)]
	if *at == 0 {
		p.n++
		*at = uint32(p.n)
	}
	return *at - 1
}

func (p *pairs) number(pair uint64) uint32 {
	if 4*(p.n+1) > 3*len(p.slots) {
		p.grow(2 * len(p.slots))
	}
	s := p.find(pair)
	if s.id == 0 {
		p.n++
		s.pair, s.id = pair, uint32(p.n)
	}
	return s.id - 1
}

func (p *pairs) find(pair uint64) *pairSlot {
	mask := uint64(len(p.slots) - 1)
	h := pair * 0x9e3779b97f4a7c15
	for at := (h ^ h>>32) & mask; ; at = (at + 1) & mask {
		if s := &p.slots[at]; s.id == 0 || s.pair == pair {
			return s
		}
	}
}

// reserve makes room for n pairs.
func (p *pairs) reserve(n int) {
	if size := slotsFor(n); size > len(p.slots) {
		p.grow(size)
	}
}

// slotsFor is the power of two that holds n without growing.
func slotsFor(n int) int { return 1 << mathbits.Len(uint(4*(n+1)/3)) }

func (p *pairs) grow(size int) {
	old := p.slots
	p.slots = make([]pairSlot, max(64, size))
	for _, s := range old {
		if s.id != 0 {
			*p.find(s.pair) = s
		}
	}
}
