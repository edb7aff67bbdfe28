package trace

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"
)

// plain returns a stored trace without its compression.
func plain(t testing.TB, name string) []byte {
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// BenchmarkRead reads traces of training (no stacks) and of a server with
// Python stacks; MB/s are of the uncompressed text.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct{ name, file string }{
		{"training", "ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"},
		{"server", "b200__eager_trace.json.gz"},
	} {
		text := plain(b, c.file)
		packed, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			b.Fatal(err)
		}
		for _, in := range []struct {
			name string
			data []byte
		}{{"plain", text}, {"gzip", packed}} {
			b.Run(c.name+"/"+in.name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := ReadFrom(bytes.NewReader(in.data), c.file, Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
