package checkpoint

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestIndexIsAMap: ids of all forms, put again and again, are found as a map has
// them.
func TestIndexIsAMap(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var ix index
	want := map[string]ref{}
	names := func(n int) string {
		var d [idBytes]byte
		d[0], d[15] = byte(n), byte(n>>8)
		text := hex.EncodeToString(d[:])
		switch n % 7 {
		case 0:
			return fmt.Sprint("case ", n)
		case 1:
			return "A" + text[1:] // hex.EncodeToString never writes it
		}
		return text
	}
	if _, ok := ix.get(names(2)); ok {
		t.Error("an empty index has an entry")
	}
	for i := range 30_000 {
		id := names(r.IntN(12_000))
		at := ref{off: int64(i), size: int32(r.IntN(99)), kind: Measured}
		*ix.place(id) = at
		want[id] = at
	}
	for n := range 12_000 {
		got, ok := ix.get(names(n))
		if w, there := want[names(n)]; ok != there || got != w {
			t.Fatalf("%s: %v %v, want %v %v", names(n), got, ok, w, there)
		}
	}
	all := map[string]ref{}
	for no, rec := range ix.all() {
		all[ix.id(no)] = rec.ref
	}
	if ix.n != len(want) || !maps.Equal(all, want) {
		t.Errorf("%d entries, want %d", ix.n, len(want))
	}
}
