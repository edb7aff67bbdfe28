package load

import (
	"fmt"
	"net"
	"os"
	"testing"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
)

// BenchmarkRun runs the whole client with its log against a server without delays in the same process.
// About half of the time is spent in the server.
func BenchmarkRun(b *testing.B) {
	for _, c := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(c), func(b *testing.B) {
			srv, err := loadtest.New(loadtest.Options{})
			if err != nil {
				b.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go func() { _ = srv.Serve(b.Context(), l) }()
			f, err := os.Create(b.TempDir() + "/log")
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			s := DefaultSettings()
			s.URL, s.Model, s.ISL, s.OSL, s.CacheReset = l.Addr().String(), "m", 100, 20, ResetNever
			s.Concurrency, s.Requests = c, max(b.N, 2, c)
			var line []byte
			o := Options{Record: func(r *aiperf.Record) {
				if line = aiperf.AppendPacked(line, r); len(line) > 64<<10 {
					if _, err := f.Write(line); err != nil {
						b.Error(err)
					}
					line = line[:0]
				}
			}}
			b.ReportAllocs()
			b.ResetTimer()
			res, err := Run(b.Context(), s, o)
			if err != nil {
				b.Fatal(err)
			}
			if n := res.Profiling.Summary.Succeeded; n != s.Requests {
				b.Errorf("%d of %d succeeded", n, s.Requests)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
