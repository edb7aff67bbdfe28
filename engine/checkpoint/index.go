package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math/bits"
	"strings"
)

// index finds the entries of a journal by the ids of their cases. Ids of cases are
// digests of 16 bytes; a million of them take 64 MB here and nothing that the
// garbage collector looks through.
type index struct {
	n     int
	slots []slot     // a hash table
	recs  [][]record // in pieces, which never move
	last  int        // the record found last; see near
	// Ids of another form, by name and by record number.
	other map[string]int
	names map[int]string
}

type record struct {
	id [idBytes]byte
	ref
}

// slot has the number of a record, from 1 (0 is free), and a part of its hash, so
// that other records are mostly told apart without a look at them.
type slot struct{ tag, no uint32 }

const (
	idBytes     = 16
	recordPiece = 1 << 13
)

func (ix *index) clear() { *ix = index{} }

// digestOf reads an id as the digest that it is.
func digestOf(id string) (d [idBytes]byte, ok bool) {
	if len(id) != 2*idBytes {
		return d, false
	}
	for i := range d {
		hi, lo := unhex[id[2*i]], unhex[id[2*i+1]]
		if hi|lo > 15 {
			return d, false
		}
		d[i] = hi<<4 | lo
	}
	return d, true
}

// unhex reads the digits that hex.EncodeToString writes; others are above 15.
var unhex = func() (t [256]byte) {
	for c := range t {
		t[c] = 255
		if at := strings.IndexByte("0123456789abcdef", byte(c)); at >= 0 {
			t[c] = byte(at)
		}
	}
	return t
}()

func (ix *index) record(no int) *record { return &ix.recs[no/recordPiece][no%recordPiece] }

func (ix *index) id(no int) string {
	if name, ok := ix.names[no]; ok {
		return name
	}
	return hex.EncodeToString(ix.record(no).id[:])
}

// hashOf is where the search for a digest begins, and its tag. Both halves count:
// ids that somebody made up may differ in one only.
func hashOf(d [idBytes]byte) (from uint64, tag uint32) {
	h := binary.LittleEndian.Uint64(d[:])*0x9e3779b97f4a7c15 ^ binary.LittleEndian.Uint64(d[8:])*0xc2b2ae3d27d4eb4f
	return h >> 32, uint32(h)
}

// slot is where a digest is in the table, or would be.
func (ix *index) slot(d [idBytes]byte) (s *slot, tag uint32) {
	mask := uint64(len(ix.slots) - 1)
	from, tag := hashOf(d)
	for at := from & mask; ; at = (at + 1) & mask {
		if s := &ix.slots[at]; s.no == 0 || s.tag == tag && ix.record(int(s.no)-1).id == d {
			return s, tag
		}
	}
}

// reserve makes room for n records.
func (ix *index) reserve(n int) {
	if size := 1 << bits.Len(uint(4*n/3)); size > len(ix.slots) {
		ix.rehash(size)
	}
}

func (ix *index) rehash(size int) {
	ix.slots = make([]slot, max(1024, size))
	mask := uint64(len(ix.slots) - 1)
	for i := range ix.n {
		if _, named := ix.names[i]; named {
			continue
		}
		from, tag := hashOf(ix.record(i).id)
		at := from & mask
		for ix.slots[at].no != 0 {
			at = (at + 1) & mask
		}
		ix.slots[at] = slot{tag, uint32(i + 1)}
	}
}

// find is the number of an id's record; -1 without one.
func (ix *index) find(id string) int {
	d, ok := digestOf(id)
	if !ok {
		if no, ok := ix.other[id]; ok {
			return no
		}
		return -1
	}
	if len(ix.slots) == 0 {
		return -1
	}
	if no := ix.near(d); no >= 0 {
		return no
	}
	s, _ := ix.slot(d)
	no := int(s.no) - 1
	if no >= 0 {
		ix.last = no
	}
	return no
}

// near looks at the records behind the one that was found last: most cases are
// asked for in the order in which they were measured, and a look into the table
// waits for memory.
func (ix *index) near(d [idBytes]byte) int {
	for no := ix.last + 1; no < min(ix.last+3, ix.n); no++ {
		if ix.record(no).id == d {
			if _, named := ix.names[no]; !named {
				ix.last = no
				return no
			}
		}
	}
	return -1
}

func (ix *index) get(id string) (ref, bool) {
	no := ix.find(id)
	if no < 0 {
		return ref{}, false
	}
	return ix.record(no).ref, true
}

// place is where the entry of an id is kept; one that is new has the kind 0.
func (ix *index) place(id string) *ref {
	d, ok := digestOf(id)
	if !ok {
		no, known := ix.other[id]
		if !known {
			if ix.other == nil {
				ix.other, ix.names = map[string]int{}, map[int]string{}
			}
			no = ix.add(d)
			ix.other[id], ix.names[no] = no, id
		}
		return &ix.record(no).ref
	}
	if no := ix.near(d); no >= 0 {
		return &ix.record(no).ref
	}
	if 3*len(ix.slots) < 4*(ix.n+1) {
		ix.rehash(2 * len(ix.slots))
	}
	s, tag := ix.slot(d)
	if s.no == 0 {
		*s = slot{tag, uint32(ix.add(d) + 1)}
	}
	ix.last = int(s.no) - 1
	return &ix.record(ix.last).ref
}

// add appends a record.
func (ix *index) add(d [idBytes]byte) int {
	if ix.n%recordPiece == 0 {
		ix.recs = append(ix.recs, make([]record, recordPiece))
	}
	no := ix.n
	ix.n++
	ix.record(no).id = d
	return no
}

// all yields the records by their numbers: in the order in which their cases were
// first appended.
func (ix *index) all() iter.Seq2[int, *record] {
	return func(yield func(int, *record) bool) {
		for no := range ix.n {
			if !yield(no, ix.record(no)) {
				return
			}
		}
	}
}
