package grid

import (
	"encoding/binary"

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
	info      *nameInfo
	vals      []cty.Value
	index     map[string]int32
	cur       int32
	slot      cty.Value // the value that expressions read
	none      cty.Value // the value while unbound or in error
	fast      []fastVal // the dictionary as fast path values
	fastIndex map[fastVal]int32
}

// space contains the variables of one expansion.
type space struct {
	vars    map[string]*variable
	strings map[string]int64 // ids of strings in the fast path
}

func newSpace(spec *Spec, outer *space) *space {
	sp := &space{vars: map[string]*variable{}, strings: map[string]int64{}}
	if outer != nil {
		sp.strings = outer.strings // the fast values of outer variables use these ids
	}

	for name, info := range spec.names {
		if info.outer {
			sp.vars[name] = outer.vars[name]
		} else {
			sp.vars[name] = newVariable(info)
		}
	}

	for _, of := range spec.ranked() {
		sp.vars[of.Name] = newVariable(&nameInfo{name: of.Name, typ: cty.DynamicPseudoType})
	}

	return sp
}

func newVariable(info *nameInfo) *variable {
	return &variable{info: info, index: map[string]int32{}, cur: idUnbound, none: info.unknown()}
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
	return id
}

// internFast is intern for an integer or bool of the fast path.
func (sp *space) internFast(v *variable, val fastVal) int32 {
	if id, ok := v.fastIndex[val]; ok {
		return id
	}

	if v.fastIndex == nil {
		v.fastIndex = map[fastVal]int32{}
	}

	id := sp.intern(v, val.cty())
	v.fastIndex[val] = id
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

// memo maps the current values of some variables to the result of an HCL evaluation, which takes
// microseconds.
type memo[T any] struct {
	vars    []*variable
	results map[string]T
	key     []byte
}

func newMemo[T any](vars []*variable) *memo[T] { return &memo[T]{vars: vars, results: map[string]T{}} }

// of returns the result for the current values. It calls get if the result is not known yet.
func (m *memo[T]) of(get func() T) T {
	m.key = m.key[:0]
	for _, v := range m.vars {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(v.cur))
	}

	if t, ok := m.results[string(m.key)]; ok {
		return t
	}

	key := string(m.key)
	t := get()
	m.results[key] = t
	return t
}
