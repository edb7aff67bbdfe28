package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const noopPlan = `
variable "n" {}
variable "window" {}
runtime "py" {
  kind      = "python"
  framework = "python"
  path      = ["noop_op.py"]
  window    = var.window
}
grid "noop" {
  op = "noop"
  axis "a" { values = range(100) }
  axis "b" { values = range(var.n / 100) }
}
collect "noop" {
  grid    = grid.noop
  runtime = runtime.py
}
`

const noopOp = `
def noop(a, b, bench):
    return {"latency": 1.0, "kernel_source": "none"}
`

// BenchmarkApplyPython measures the engine's cost of a case whose Python op does nothing: expansion,
// pipe, policy, journal and tables. It is the difference between applies of two sizes, which excludes
// the start.
func BenchmarkApplyPython(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 is not installed")
	}
	bin := built(b)
	dir := b.TempDir()
	for name, text := range map[string]string{"plan.hcl": noopPlan, "noop_op.py": noopOp} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	runs := 0
	apply := func(n, window int) time.Duration {
		runs++
		cmd := exec.Command(bin, fmt.Sprintf("--state-dir=state%d", runs), "apply", fmt.Sprintf("--var=n=%d", n),
			fmt.Sprintf("--var=window=%d", window), "plan.hcl")
		cmd.Dir = dir
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return time.Since(start)
	}
	const few, many = 1000, 21000
	for _, window := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			var cases, start time.Duration
			for b.Loop() {
				small := apply(few, window)
				each := (apply(many, window) - small) / (many - few)
				cases += each
				start += small - few*each
			}
			each := float64(cases) / float64(b.N) / 1e6
			b.ReportMetric(each, "ms/case")
			b.ReportMetric(1e3/each, "cases/s")
			b.ReportMetric(float64(start)/float64(b.N)/1e6, "ms-start")
		})
	}
}
