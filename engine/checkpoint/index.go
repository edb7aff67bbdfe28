package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"strings"
)

// index finds the entries of a journal by the ids of their cases. Ids of cases are
// digests of 16 bytes; a million of them take 48 MB here and nothing that the
// garbage collector looks through.
type index struct {
	n     int
	slots []uint32   // a hash table of record numbers, from 1; 0 is free
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

// slot is where a digest is in the table, or would be.
func (ix *index) slot(d [idBytes]byte) *uint32 {
	mask := uint64(len(ix.slots) - 1)
	// Both halves count: ids that somebody made up may differ in one only.
	hash := binary.LittleEndian.Uint64(d[:])*0x9e3779b97f4a7c15 ^ binary.LittleEndian.Uint64(d[8:])*0xc2b2ae3d27d4eb4f
	for at := hash >> 20 & mask; ; at = (at + 1) & mask {
		if s := &ix.slots[at]; *s == 0 || ix.record(int(*s)-1).id == d {
			return s
		}
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
	no := int(*ix.slot(d)) - 1
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
		ix.slots = make([]uint32, max(1024, 2*len(ix.slots)))
		for i := range ix.n {
			if _, named := ix.names[i]; !named {
				*ix.slot(ix.record(i).id) = uint32(i + 1)
			}
		}
	}
	at := ix.slot(d)
	if *at == 0 {
		*at = uint32(ix.add(d) + 1)
	}
	ix.last = int(*at) - 1
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
