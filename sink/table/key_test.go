package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"pgregory.net/rapid"
)

func record(names []string, cols ...arrow.Array) arrow.Record { return NewRecord(names, cols) }

func TestEqualKeysAcrossTables(t *testing.T) {
	a := record([]string{"dtype", "m"}, Texts([]string{"fp8", "bfloat16"}, nil), Ints([]int64{1, 2}, nil))
	b := record([]string{"m", "dtype"}, Floats([]float64{2, 2.5, 1}, nil),
		Texts([]string{"float16", "bfloat16", "fp8"}, nil))
	ix := NewKeyIndex([]string{"dtype", "m"}, KeyOptions{Canon: func(col, w string) string {
		if col == "dtype" && w == "float16" {
			return "bfloat16"
		}
		return w
	}})
	first, second := ix.Number(a), ix.Number(b)
	if !slices.Equal(first, []uint32{0, 1}) || !slices.Equal(second, []uint32{1, 2, 0}) {
		t.Errorf("numbers %v and %v; want 0 1 and 1 2 0", first, second)
	}
	if ix.Len() != 3 {
		t.Errorf("%d keys, want 3", ix.Len())
	}
}

func TestMissingColumnsAndNulls(t *testing.T) {
	old := record([]string{"m"}, Ints([]int64{1}, nil))
	now := record([]string{"m", "window_size"}, Ints([]int64{1, 1, 1}, nil),
		Ints([]int64{0, 128, 0}, []bool{true, true, false}))
	strict := NewKeyIndex([]string{"m", "window_size"}, KeyOptions{})
	ids := append(strict.Number(old), strict.Number(now)...)
	if !slices.Equal(ids, []uint32{0, 1, 2, 3}) {
		t.Errorf("without a default a missing column, 0, 128 and null are four keys; got %v", ids)
	}
	lenient := NewKeyIndex([]string{"m", "window_size"}, KeyOptions{Missing: map[string]int64{"window_size": 0}})
	ids = append(lenient.Number(old), lenient.Number(now)...)
	if !slices.Equal(ids, []uint32{0, 0, 1, 0}) {
		t.Errorf("with the default 0, got %v", ids)
	}
}

func TestUnusableColumn(t *testing.T) {
	b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	b.AppendNull()
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), `"shape"`) {
			t.Errorf("error %v does not name the column", err)
		}
	}()
	NewKeyIndex([]string{"shape"}, KeyOptions{}).Number(record([]string{"shape"}, b.NewArray()))
}

func TestGroups(t *testing.T) {
	got := Groups([]uint32{2, 0, 1, 0, 2, 0}, 3)
	if len(got) != 2 || !slices.Equal(got[0], []int{0, 4}) || !slices.Equal(got[1], []int{1, 3, 5}) {
		t.Errorf("groups %v", got)
	}
}

func TestOrder(t *testing.T) {
	r := record([]string{"dtype", "m", "latency"},
		Texts([]string{"fp8", "bf16", "fp8", "", "fp8", "fp8"}, []bool{true, true, true, false, true, true}),
		Ints([]int64{10, 5, 9, 1, 9, 9}, nil),
		Floats([]float64{1, 2, 3, 4, 2, math.NaN()}, nil))
	got := Order(r, []string{"dtype", "m"})
	if want := []int{1, 4, 2, 5, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// The order of the rows that come in does not matter.
func TestOrderProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "n")
		a, b, c := make([]int64, n), make([]string, n), make([]float64, n)
		for i := range n {
			a[i] = int64(rapid.IntRange(-3, 3).Draw(rt, "a"))
			b[i] = rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "b")
			c[i] = float64(rapid.IntRange(0, 2).Draw(rt, "c")) / 4
		}
		in := record([]string{"a", "b", "c"}, Ints(a, nil), Texts(b, nil), Floats(c, nil))
		perm := rapid.Permutation(sequence(n)).Draw(rt, "perm")
		shuffled := Take(in, perm)
		one, two := ordered(rt, in, "b", "a"), ordered(rt, shuffled, "b", "a")
		if !array.RecordEqual(one, two) {
			rt.Fatalf("sorting depends on the order of the rows:\n%v\n%v", one, two)
		}
		bs, _ := Strings(one, "b")
		as, _ := Int64s(one, "a")
		for i := 1; i < n; i++ {
			if bs.Values[i-1] > bs.Values[i] || bs.Values[i-1] == bs.Values[i] && as.Values[i-1] > as.Values[i] {
				rt.Fatalf("rows %d and %d are out of order", i-1, i)
			}
		}
	})
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func ordered(rt *rapid.T, r arrow.Record, cols ...string) arrow.Record {
	return Take(r, Order(r, cols))
}

// TestNumberProperty: rows of several tables get numbers in the order in which
// their keys come first, however large and however regular the tables are.
func TestNumberProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 5))
		columns := []string{"a", "b", "c"}[:1+r.IntN(3)]
		ix, want := NewKeyIndex(columns, KeyOptions{}), map[string]uint32{}
		for range 1 + r.IntN(3) {
			n, values, grid := 1+r.IntN(300), 1+r.IntN(40), r.IntN(2) == 0
			if seed%40 == 0 {
				n, values = 10000, 20000 // beyond sampled
			}
			cols := make([]arrow.Array, len(columns))
			keys := make([]string, n)
			for c := range cols {
				texts := make([]string, n)
				for i := range texts {
					k := r.IntN(values)
					if grid {
						k = i / []int{1, 7, 49}[c] % 7
					}
					texts[i] = fmt.Sprint("v", k)
					keys[i] += texts[i] + " "
				}
				cols[c] = Texts(texts, nil)
			}
			got := ix.Number(NewRecord(columns, cols))
			for i, k := range keys {
				if _, ok := want[k]; !ok {
					want[k] = uint32(len(want))
				}
				if got[i] != want[k] {
					t.Fatalf("seed %d: row %d, %s, has the number %d and not %d", seed, i, k, got[i], want[k])
				}
			}
			if ix.Len() != len(want) {
				t.Fatalf("seed %d: %d keys, want %d", seed, ix.Len(), len(want))
			}
		}
	}
}
