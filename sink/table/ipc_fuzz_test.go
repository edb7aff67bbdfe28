package table

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
)

// FuzzDecodeIPC reads what may be an Arrow file: what is read can be written and
// read again.
func FuzzDecodeIPC(f *testing.F) {
	data, err := EncodeIPC(NewRecord([]string{"f", "s"}, []arrow.Array{
		Floats([]float64{1, 2.5, 0}, []bool{true, true, false}), Texts([]string{"a", "b", ""}, nil)}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte("ARROW1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := DecodeIPC(data)
		if err != nil {
			return
		}
		b, err := EncodeIPC(rec)
		if err != nil {
			return // refused with an error
		}
		if _, err := DecodeIPC(b); err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
	})
}
