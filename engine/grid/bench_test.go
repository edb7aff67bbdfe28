package grid

import (
	"runtime"
	"testing"
	"time"
)

// millionGrid declares 1,000,000 combinations.
const millionGrid = `
op = "bench"
axis "b"     { values = range(1, 101) }
axis "s"     { values = [for i in range(1, 501) : i * 16] }
axis "dtype" { values = ["bfloat16", "fp8", "fp8_block", "nvfp4"] }
axis "sm"    { values = [80, 86, 89, 90, 100] }
filter "fits" {
  keep   = b * s <= 65536 && (dtype != "fp8" || sm >= 89)
  reason = "limits"
}
`

// largeGrid keeps 300,000 cases with nine columns.
const largeGrid = `
op = "bench"
rows "model" { values = [for i in range(60) : { hidden = 1024 + 128 * floor(i / 2), experts = 8 * (1 + i % 4), model = "organisation/Model-${i}" }] }
rows "dtype" { values = [{ dtype = "bfloat16", min_sm = 0 }, { dtype = "fp8", min_sm = 89 }, { dtype = "fp8_block", min_sm = 90 }, { dtype = "nvfp4", min_sm = 90 }, { dtype = "int4", min_sm = 100 }] }
axis "tokens" { values = [for i in range(125) : i * 8 + 1] }
axis "tp" { values = [1, 2, 4, 8, 16] }
axis "ep" { values = [1, 2] }
derive "local_hidden" { value = floor(hidden / tp) }
filter "sm" {
  keep   = system.h200_sxm.sm_version >= min_sm
  reason = "needs a newer GPU"
}
filter "memory" {
  keep   = tokens * hidden < 1000000000
  reason = "does not fit"
}
`

func benchExpand(b *testing.B, src string, o options) {
	spec := mustDecode(b, src)
	b.ReportAllocs()
	for b.Loop() {
		var evals int64
		c, diags := expand(spec, counting(o, &evals))
		if diags.HasErrors() {
			b.Fatal(diags)
		}
		b.ReportMetric(float64(evals), "evals")
		b.ReportMetric(float64(c.Len()), "cases")
	}
}

func BenchmarkMillion(b *testing.B) {
	b.Run("memoised", func(b *testing.B) { benchExpand(b, millionGrid, memoised) })
	b.Run("memoised-hcl-only", func(b *testing.B) { benchExpand(b, millionGrid, hclOnly) })
	b.Run("unknown-pruned", func(b *testing.B) { benchExpand(b, millionGrid, unknownPruned) })
	b.Run("flat", func(b *testing.B) { benchExpand(b, millionGrid, flat) })
}

// BenchmarkMillionRatio measures one run of both strategies. It reports the slowdown of the flat
// strategy (the goal is 30 or more) and the bytes that the memoised one allocates (below 150 MB).
func BenchmarkMillionRatio(b *testing.B) {
	spec := mustDecode(b, millionGrid)
	timed := func(o options) (time.Duration, uint64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		if _, diags := expand(spec, o); diags.HasErrors() {
			b.Fatal(diags)
		}

		d := time.Since(start)
		runtime.ReadMemStats(&after)
		return d, after.TotalAlloc - before.TotalAlloc
	}

	for b.Loop() {
		memo, bytes := timed(memoised)
		flat, _ := timed(flat)
		b.ReportMetric(float64(flat)/float64(memo), "times-flat")
		b.ReportMetric(float64(bytes)/1e6, "memo-MB")
	}
}

func BenchmarkLarge(b *testing.B) {
	b.Run("expand", func(b *testing.B) { benchExpand(b, largeGrid, memoised) })
	c := mustExpand(b, mustDecode(b, largeGrid))
	b.Run("ids", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.makeIDs()
		}
		b.ReportMetric(float64(c.Len()), "cases")
	})

	b.Run("record", func(b *testing.B) {
		c.ID(0)
		b.ReportAllocs()
		for b.Loop() {
			tableOf(c.Spec, c.columns, c.n, c.ids).Columns()
		}
	})
}

func BenchmarkRealGrids(b *testing.B) {
	for _, g := range realGrids(b) {
		b.Run(g.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := mustExpand(b, mustDecode(b, g.src))
				c.Record().Columns()
			}
		})
	}
}
