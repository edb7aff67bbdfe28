package checkpoint

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var benchPayload = []byte(`{"rows":[{"latency":0.0123456789,"samples":12,"rel_stdev":0.0042,"p10":0.0121,"p90":0.0127,"used_cuda_graph":true,"sm_clock_mhz":1980,"throttled":false}],"params":{"gemm_dtype":"fp8","m":4096,"n":7168,"k":2048},"worker":"w3","device_uuid":"GPU-11111111-2222-3333-4444-555555555555","attempts":1,"started_at":"2026-01-02T03:04:05.678Z"` + strings.Repeat(" ", 40) + `}`)

func benchID(i int) string { return fmt.Sprintf("%032x", i*2654435761) }

// Every row is acknowledged only once it is on disk.
func BenchmarkJournalAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			j := journal(b, open(b, filepath.Join(b.TempDir(), "state"), Options{}))
			b.SetBytes(int64(len(benchPayload)))
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for {
						i := int(next.Add(1))
						if i > b.N {
							return
						}
						if err := j.Append(Entry{ID: benchID(i), Kind: Measured, Payload: benchPayload}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// One goroutine that appends without waiting, like a supervisor of many workers.
func BenchmarkJournalAppendFunc(b *testing.B) {
	j := journal(b, open(b, filepath.Join(b.TempDir(), "state"), Options{}))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4096)
	b.ResetTimer()
	for i := range b.N {
		wg.Add(1)
		slots <- struct{}{}
		if err := j.AppendFunc(Entry{ID: benchID(i), Kind: Measured, Payload: benchPayload}, func(err error) {
			if err != nil {
				b.Error(err)
			}
			<-slots
			wg.Done()
		}); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func filledJournal(b *testing.B, n int) string {
	dir := filepath.Join(b.TempDir(), "state")
	s := open(b, dir, Options{})
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{ID: benchID(i), Kind: Measured, Payload: benchPayload}
	}
	appendOK(b, journal(b, s), entries...)
	return dir
}

func BenchmarkJournalOpen100k(b *testing.B) {
	dir := filledJournal(b, 100_000)
	b.ResetTimer()
	for b.Loop() {
		s, err := Open(dir, Options{ReadOnly: true})
		if err != nil {
			b.Fatal(err)
		}
		if j := journal(b, s); j.Len() != 100_000 {
			b.Fatal(j.Len())
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJournalAll100k(b *testing.B) {
	j := journal(b, open(b, filledJournal(b, 100_000), Options{ReadOnly: true}))
	b.ResetTimer()
	for b.Loop() {
		n := 0
		for _, err := range j.All() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100_000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkJournalLookup(b *testing.B) {
	j := journal(b, open(b, filledJournal(b, 100_000), Options{ReadOnly: true}))
	b.ResetTimer()
	i := 0
	for b.Loop() {
		i++
		if _, ok, err := j.Lookup(benchID(i * 7919 % 100_000)); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
