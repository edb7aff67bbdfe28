package table

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// TestLargeTables: a table of several batches comes back as it was, and its bytes do
// not depend on how its columns were built.
func TestLargeTables(t *testing.T) {
	t.Parallel()
	n := batchRows + 1000
	ints, texts, valid := make([]int64, n), make([]string, n), make([]bool, n)
	for i := range n {
		ints[i], texts[i], valid[i] = int64(i%7), fmt.Sprintf("%06d", i%10000), i%3 > 0
	}
	flags := Flags(valid, nil)
	one := NewRecord([]string{"i", "t", "f", "n"},
		[]arrow.Array{Ints(ints, nil), Texts(texts, nil), flags, Texts(texts, valid)})
	other := NewRecord([]string{"i", "t", "f", "n"},
		[]arrow.Array{Ints(ints, nil), TextsOf(n, func(i int, b []byte) []byte { return append(b, texts[i]...) }), flags,
			Texts(texts, valid)})
	data, err := EncodeIPC(one)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := EncodeIPC(other); err != nil || !bytes.Equal(again, data) {
		t.Errorf("other bytes: %d and %d, %v", len(again), len(data), err)
	}
	back, err := DecodeIPC(data)
	if err != nil {
		t.Fatal(err)
	}
	if !array.RecordEqual(back, one) {
		t.Error("the table is another one")
	}
	// A slice has the bytes of a table of its own.
	slice, err := EncodeIPC(one.NewSlice(5, 105))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := EncodeIPC(NewRecord([]string{"i", "t", "f", "n"},
		[]arrow.Array{Ints(ints[5:105], nil), Texts(texts[5:105], nil), Flags(valid[5:105], nil),
			Texts(texts[5:105], valid[5:105])}))
	if err != nil || !bytes.Equal(slice, alone) {
		t.Errorf("a slice has other bytes, %v", err)
	}
}
