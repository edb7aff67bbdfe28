package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// TestStackIsConcat: parts put below each other are the column that they were cut
// from, byte for byte, whatever is null or the same in them.
func TestStackIsConcat(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 13))
		n, nulls, kinds := r.IntN(40), r.IntN(3), 1+r.IntN(4)
		valid := make([]bool, n)
		texts, ints, floats, flags := make([]string, n), make([]int64, n), make([]float64, n), make([]bool, n)
		for i := range n {
			valid[i] = nulls == 0 || nulls == 1 && r.IntN(4) > 0 || nulls == 2 && i > n/2
			k := r.IntN(kinds)
			texts[i], ints[i], floats[i], flags[i] = fmt.Sprint("w", k)[:k%3], int64(k), float64(k)/3, k%2 == 0
		}
		whole := map[string]arrow.Array{
			"texts": table.Texts(texts, valid), "ints": table.Ints(ints, valid), "floats": table.Floats(floats, valid), "flags": table.Flags(flags, valid),
		}
		for name, want := range whole {
			s := table.NewStack(want.DataType(), r.IntN(60))
			for at := 0; at < n; {
				end := at + 1 + r.IntN(n-at)
				part := table.TakeColumn(want, upTo(at, end))
				if part.NullN() == part.Len() && r.IntN(2) == 0 {
					s.Fill(end)
				} else if err := s.Append(part); err != nil {
					t.Fatal(err)
				}
				at = end
			}
			got := s.Array()
			a, b := table.NewRecord([]string{"c"}, []arrow.Array{want}), table.NewRecord([]string{"c"}, []arrow.Array{got})
			x, errX := table.EncodeIPC(a, table.Uncompressed)
			y, errY := table.EncodeIPC(b, table.Uncompressed)
			if errX != nil || errY != nil || string(x) != string(y) {
				t.Fatalf("seed %d, %s: %v, want %v", seed, name, got, want)
			}
		}
	}
	s := table.NewStack(table.Int64, 1)
	if err := s.Append(table.Texts([]string{"a"}, nil)); err == nil {
		t.Error("a text is put below integers")
	}
}

func upTo(from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}
