package perf

import (
	"bytes"
	"testing"
)

// FuzzReadParquet reads what may be a Parquet file: what is read can be written
// and read again.
func FuzzReadParquet(f *testing.F) {
	for _, csv := range []string{"a,b\n1,2\n", "a,b,c\nx,,1.5\ny,2,-0\n", "a\n"} {
		rec, err := ReadCSV([]byte(csv), nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(toParquet(f, rec))
	}
	f.Add([]byte("PAR1"))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := ReadParquet(data)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteParquet(&b, rec); err != nil {
			return // text that is no UTF-8 and the like: refused with a word
		}
		again, err := ReadParquet(b.Bytes())
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		if d := difference(rec, again); d != "" {
			t.Fatal(d)
		}
	})
}
