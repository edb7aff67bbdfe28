package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
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

// BenchmarkRead reads traces of training (no stacks) and of a server with Python stacks. MB/s refers to the
// uncompressed text.
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

// events generates a trace of kernels with a step every thousand kernels while it is read.
type events struct {
	n, at int
	buf   bytes.Buffer
}

func (e *events) Read(b []byte) (int, error) {
	for e.buf.Len() < len(b) && e.at < e.n {
		name, more := "gemm", ""
		switch {
		case e.at == 0:
			e.buf.WriteString("[")
		case e.at%1000 == 1:
			fmt.Fprintf(&e.buf, `{"ph":"X","cat":"gpu_user_annotation","name":"execute_context_%d","pid":0,"tid":7,"ts":%d,"dur":5000},`, e.at, 5*e.at)
		}
		if e.at%6 == 0 {
			name, more = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", `,"Collective name":"allreduce","In msg `+
				`nelems":1048576,"Group size":8,"dtype":"BFloat16","Process Group Name":"3"`
		}
		fmt.Fprintf(&e.buf, `{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d.%03d,"dur":%d.5,"args":{"device":0,"stream":7%s}},`,
			name, 7+e.at%4, 5*e.at+e.at%4*100, e.at%1000, 4+e.at%9, more)
		if e.at++; e.at == e.n {
			e.buf.Truncate(e.buf.Len() - 1)
			e.buf.WriteString("]")
		}
	}
	return e.buf.Read(b)
}

// BenchmarkManyKernels reads traces that consist only of kernels on four streams.
func BenchmarkManyKernels(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rec := newRecording(DefaultRules())
				if err := readKineto(&events{n: n}, rec); err != nil {
					b.Fatal(err)
				}
				if r := rec.results("t", "kineto", 0)[0]; r.Kernels != int64(n) || r.Steps != n/1000 {
					b.Fatal(r.Kernels, r.Steps)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mkernels/s")
		})
	}
}
