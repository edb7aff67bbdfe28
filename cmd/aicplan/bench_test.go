package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The benchmarks below run the built binary as a user would, a fresh process
// each time, and report its wall time and peak memory.

func built(b *testing.B) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "aicplan")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_CFLAGS=-Wno-deprecated-declarations")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

func benchCommand(b *testing.B, bin, dir string, args ...string) {
	b.Helper()
	peak := int64(0)
	for b.Loop() {
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", args, err, out[max(0, len(out)-2000):])
		}
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			peak = max(peak, u.Maxrss)
		}
	}
	b.ReportMetric(float64(peak)/1024, "MB-peak")
}

// BenchmarkPlan plans each backend's whole database.
func BenchmarkPlan(b *testing.B) {
	bin := built(b)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		b.Fatal(err)
	}
	state := filepath.Join(b.TempDir(), "state")
	for _, p := range []string{"trtllm", "vllm", "sglang"} {
		b.Run(p, func(b *testing.B) {
			benchCommand(b, bin, root, "-state-dir", state, "plan", filepath.Join("plans", "h200_"+p+".hcl"))
		})
	}
	b.Run("cases-gemm", func(b *testing.B) {
		benchCommand(b, bin, root, "-state-dir", state, "cases", filepath.Join("plans", "h200_trtllm.hcl"), "grid.gemm")
	})
}

const hundredThousand = `
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  synthetic = true
  window    = 64
}
grid "s" {
  op = "synthetic"
  axis "a" { values = range(100) }
  axis "b" { values = range(1000) }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.cpu
}
gate "s" {
  input = collect.s
  check "coverage" { min = 1.0 }
}
export "s" {
  input = gate.s
  file  = "s_perf.txt"
}
`

// BenchmarkApply100k measures 100,000 synthetic cases once, then applies the
// same plan with nothing to do.
func BenchmarkApply100k(b *testing.B) {
	bin := built(b)
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(hundredThousand), 0o644); err != nil {
		b.Fatal(err)
	}
	state := func(n int) string { return fmt.Sprintf("-state-dir=state%d", n) }
	last := 0
	b.Run("collect", func(b *testing.B) {
		for b.Loop() {
			last++
			cmd := exec.Command(bin, state(last), "apply", "plan.hcl")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
		}
		b.ReportMetric(100000*float64(b.N)/b.Elapsed().Seconds(), "cases/s")
	})
	b.Run("nothing-to-do", func(b *testing.B) { benchCommand(b, bin, dir, state(last), "apply", "plan.hcl") })
	b.Run("plan", func(b *testing.B) { benchCommand(b, bin, dir, state(last), "plan", "plan.hcl") })
}
