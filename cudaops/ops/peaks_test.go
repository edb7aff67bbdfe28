package ops

import (
	"testing"

	"aicplan/cudaops/worker"
)

// TestRankOrdersByTheClockThatCasesKeep uses pairs of products that ran alone on an
// H200 until they kept their clock. The one with the lower clock must rank higher.
// The weights of these come from memory, and what the others read mostly stays in
// the cache. Load classifies both as capped and would order them the other way round.
func TestRankOrdersByTheClockThatCasesKeep(t *testing.T) {
	t.Parallel()
	d := newBench(t, worker.Init{}).device()
	type product struct {
		m, n, k int64
		us, mhz float64
	}
	const full = 1975.0 // MHz
	of := func(p product) (load, rank float64) {
		one, err := GEMM{Type: "bfloat16", M: p.m, N: p.n, K: p.k}.prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		return d.Peaks.Load(one, p.us*1e-6, p.mhz/full), d.Peaks.Rank(one, p.us*1e-6, p.mhz/full)
	}
	for _, pair := range [][2]product{
		{{225, 3072, 10240, 37.7, 1349}, {4097, 256, 2048, 9.2, 1705}},
		{{225, 3072, 10240, 37.7, 1349}, {2561, 3072, 512, 14.9, 1646}},
		{{113, 5120, 10240, 38.4, 1396}, {4097, 256, 2048, 9.2, 1705}},
		{{96, 1536, 51200, 50.2, 1349}, {3584, 768, 2048, 19.1, 1654}},
		{{129, 3072, 16384, 36.5, 1391}, {2561, 3072, 512, 14.9, 1646}},
	} {
		lowLoad, lowRank := of(pair[0])
		highLoad, highRank := of(pair[1])
		if lowRank <= highRank {
			t.Errorf("%v ranks %.0f W and %v %.0f W", pair[0], lowRank, pair[1], highRank)
		}
		if lowLoad >= highLoad {
			t.Errorf("%v and %v are no example: Load orders them by their clocks, too", pair[0], pair[1])
		}
	}
}

// TestKeptBytes checks that activations and output stay in a cache that is large enough for both, and come from
// memory otherwise.
func TestKeptBytes(t *testing.T) {
	t.Parallel()
	d := newBench(t, worker.Init{}).device()
	for _, c := range []struct {
		m, n, k int64
		kept    float64
	}{
		{64, 4096, 8192, 2 * 64 * (4096 + 8192)},
		{4096, 1024, 1024, 2 * 4096 * (1024 + 1024)},
		{16384, 4096, 4096, 0}, // 256 MiB
	} {
		one, err := GEMM{Type: "bfloat16", M: c.m, N: c.n, K: c.k}.prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		if one.Kept != c.kept {
			t.Errorf("%dx%dx%d keeps %.0f of its %.0f bytes, want %.0f", c.m, c.n, c.k, one.Kept, one.Bytes, c.kept)
		}
		one.Close()
	}
}
