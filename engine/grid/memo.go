package grid

import (
	"math/bits"

	"github.com/zclconf/go-cty/cty"
)

// The current id of a variable is an index into its dictionary or one of these.
const (
	idUnbound int32 = -1 // bound by a loop further in
	idError   int32 = -2 // deriving it failed for this combination
	idLazy    int32 = -3 // not derived yet
)

// variable is one name of a grid during an expansion, with a dictionary of the values that it had
// so far. All sets share it, so the results of a common filter computed for one set are reused in
// the next.
type variable struct {
	info  *nameInfo
	vals  []cty.Value
	index map[string]int32
	bits  uint8 // number of bits that id + 1 needs
	cur   int32
	slot  cty.Value // the value that expressions read
	none  cty.Value // the value while unbound or in error
	fast  []fastVal // the dictionary as fast path values
}

// space contains the variables of one expansion.
type space struct {
	vars    map[string]*variable
	strings map[string]int64 // ids of strings in the fast path
	// generation counts changes of any variable's bits. A memo with an older generation repacks its
	// entries.
	generation int
}

func newSpace(spec *Spec, outer *space) *space {
	sp := &space{vars: map[string]*variable{}, strings: map[string]int64{}}
	if outer != nil {
		sp.strings = outer.strings // the fast values of outer variables use these ids
	}

	for name, info := range spec.names {
		if info.outer {
			sp.vars[name] = outer.vars[name]
			continue
		}
		v := &variable{info: info, index: map[string]int32{}, bits: 1, cur: idUnbound, none: info.unknown()}
		if info.derived {
			v.bits = 6 // leaves room to grow, since every growth repacks memos
		}

		sp.vars[name] = v
	}

	return sp
}

// intern returns the id of a value and adds the value to the dictionary if needed.
func (sp *space) intern(v *variable, val cty.Value) int32 {
	key := exactKey(val)
	if id, ok := v.index[key]; ok {
		return id
	}

	id := int32(len(v.vals))
	val = wide(val)
	v.vals = append(v.vals, val)
	v.fast = append(v.fast, sp.fastOf(val))
	v.index[key] = id

	if need := uint8(bits.Len32(uint32(len(v.vals)))); need > v.bits {
		v.bits = need
		if v.info.derived {
			v.bits = need + 1
		}
		sp.generation++
	}

	return id
}

// load copies the current value to the slot that expressions read.
func (v *variable) load() {
	if v.cur >= 0 {
		v.slot = v.vals[v.cur]
	} else {
		v.slot = v.none
	}
}

// flatBits is the maximum key size, in bits, of a memo stored as an array: 256 k entries.
const flatBits = 18

// memo maps the current ids of some variables to a result. A zero T means that no result is stored.
type memo[T uint8 | int32] struct {
	vars       []*variable
	bits       []uint8
	generation int
	flat       []T
	sparse     map[uint64]T
	off        bool // keys exceed 64 bits, so nothing is stored
}

func newMemo[T uint8 | int32](sp *space, vars []*variable) *memo[T] {
	m := &memo[T]{vars: vars, generation: sp.generation}
	m.allocate(m.layout())
	return m
}

// layout returns the current number of bits of each variable.
func (m *memo[T]) layout() []uint8 {
	out := make([]uint8, len(m.vars))
	for i, v := range m.vars {
		out[i] = v.bits
	}
	return out
}

func (m *memo[T]) allocate(layout []uint8) {
	m.bits = layout
	total := 0
	for _, b := range layout {
		total += int(b)
	}

	m.flat, m.sparse, m.off = nil, nil, total > 64
	switch {
	case m.off:
	case total <= flatBits:
		m.flat = make([]T, 1<<total)
	default:
		m.sparse = map[uint64]T{}
	}
}

// key packs the current ids into one number. All variables must be bound or in error.
func (m *memo[T]) key(sp *space) uint64 {
	if m.generation != sp.generation {
		m.move(sp)
	}
	var key uint64
	for i, v := range m.vars {
		id := uint64(0) // idError
		if v.cur >= 0 {
			id = uint64(v.cur) + 1
		}
		key = key<<m.bits[i] | id
	}

	return key
}

func (m *memo[T]) get(key uint64) T {
	if m.flat != nil {
		return m.flat[key]
	}
	return m.sparse[key]
}

func (m *memo[T]) put(key uint64, t T) {
	switch {
	case m.flat != nil:
		m.flat[key] = t
	case !m.off:
		m.sparse[key] = t
	}
}

// move repacks all entries after a variable needs more bits.
func (m *memo[T]) move(sp *space) {
	m.generation = sp.generation

	layout := m.layout()
	same := true
	for i, b := range layout {
		same = same && b == m.bits[i]
	}

	if same {
		return
	}

	old := *m
	m.allocate(layout)

	repack := func(key uint64, t T) {
		var out uint64
		shift := 0
		for i := len(layout) - 1; i >= 0; i-- {
			id := key & (1<<old.bits[i] - 1)
			key >>= old.bits[i]
			out |= id << shift
			shift += int(layout[i])
		}

		m.put(out, t)
	}

	for key, t := range old.flat {
		if t != 0 {
			repack(uint64(key), t)
		}
	}

	for key, t := range old.sparse {
		repack(key, t)
	}
}
