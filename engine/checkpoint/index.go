package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
)

// index finds the entries of a journal by the ids of their cases. Ids of cases are
// digests of 16 bytes; a million of them take 48 MB here and nothing that the
// garbage collector looks through.
type index struct {
	n     int
	slots []uint32   // a hash table of record numbers, from 1; 0 is free
	recs  [][]record // in pieces, which never move
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
		hi, lo := unhex(id[2*i]), unhex(id[2*i+1])
		if hi > 15 || lo > 15 {
			return d, false
		}
		d[i] = hi<<4 | lo
	}
	return d, true
}

// unhex reads the digits that hex.EncodeToString writes; others are above 15.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

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
	for at := binary.LittleEndian.Uint64(d[:]) * 0x9e3779b97f4a7c15 >> 20 & mask; ; at = (at + 1) & mask {
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
	return int(*ix.slot(d)) - 1
}

func (ix *index) get(id string) (ref, bool) {
	no := ix.find(id)
	if no < 0 {
		return ref{}, false
	}
	return ix.record(no).ref, true
}

func (ix *index) put(id string, r ref) {
	if no := ix.find(id); no >= 0 {
		ix.record(no).ref = r
		return
	}
	if ix.n%recordPiece == 0 {
		ix.recs = append(ix.recs, make([]record, recordPiece))
	}
	no := ix.n
	ix.n++
	d, ok := digestOf(id)
	*ix.record(no) = record{id: d, ref: r}
	if !ok {
		if ix.other == nil {
			ix.other, ix.names = map[string]int{}, map[int]string{}
		}
		ix.other[id], ix.names[no] = no, id
		return
	}
	if 3*len(ix.slots) < 4*ix.n {
		ix.slots = make([]uint32, max(1024, 2*len(ix.slots)))
		for i := range ix.n {
			if _, named := ix.names[i]; !named {
				*ix.slot(ix.record(i).id) = uint32(i + 1)
			}
		}
		return
	}
	*ix.slot(d) = uint32(no + 1)
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
