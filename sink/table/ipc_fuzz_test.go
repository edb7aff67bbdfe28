package table

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
)

// FuzzDecodeIPC reads what may be an Arrow file: what is read can be written and
// read again.
func FuzzDecodeIPC(f *testing.F) {
	for _, c := range []Compression{Zstd, Uncompressed} {
		data, err := EncodeIPC(NewRecord([]string{"f", "s"}, []arrow.Array{Floats([]float64{1, 2.5, 0}, []bool{true, true, false}), Texts([]string{"a", "b", ""}, nil)}), c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("ARROW1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := DecodeIPC(data)
		if err != nil {
			return
		}
		b, err := EncodeIPC(rec, Zstd)
		if err != nil {
			return // refused with a word
		}
		if _, err := DecodeIPC(b); err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
	})
}
