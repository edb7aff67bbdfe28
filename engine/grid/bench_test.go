package grid

import (
	"context"
	"testing"
)

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

func benchExpand(b *testing.B, s Strategy) {
	spec := mustDecode(b, millionGrid)
	b.ReportAllocs()
	for b.Loop() {
		c, diags := Expand(context.Background(), spec, Options{Strategy: s})
		if diags.HasErrors() {
			b.Fatal(diags)
		}
		b.ReportMetric(float64(c.Evaluations()), "evals")
		b.ReportMetric(float64(c.Len()), "cases")
	}
}

func BenchmarkMillionMemoised(b *testing.B) { benchExpand(b, Memoised) }
func BenchmarkMillionUnknown(b *testing.B)  { benchExpand(b, UnknownPruned) }
func BenchmarkMillionFlat(b *testing.B)     { benchExpand(b, Flat) }
