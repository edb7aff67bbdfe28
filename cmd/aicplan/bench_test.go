package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The benchmarks below run the built binary in a new process each time, like a user, and report its wall
// time and peak memory.

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
			benchCommand(b, bin, root, "--state-dir", state, "plan", filepath.Join("plans", "h200_"+p+".hcl"))
		})
	}
	b.Run("cases-gemm", func(b *testing.B) {
		benchCommand(b, bin, root, "--state-dir", state, "cases", filepath.Join("plans", "h200_trtllm.hcl"), "grid.gemm")
	})
}

const scalePlan = `
variable "side" { type = number }
variable "more" { default = 0 }
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  synthetic = true
  window    = 64
}
grid "s" {
  op = "synthetic"
  axis "a" { values = range(var.side + var.more) }
  axis "b" { values = range(100) }
  axis "c" { values = range(10) }
  filter "pos" {
    keep   = a >= 0 && b < 1000
    reason = "negative"
  }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.cpu
}
dedupe "s" {
  input = collect.s
}
gate "s" {
  input = dedupe.s
  check "coverage" { min = 1.0 }
  check "duplicates" {}
}
export "s" {
  input = gate.s
  file  = "s_perf.txt"
}
`

// scaleFigures are the wall time, the processor time including the worker's, and the larger peak memory
// of both processes.
type scaleFigures struct{ wall, processor, peak float64 }

func scaleCommand(b *testing.B, bin, dir string, args ...string) scaleFigures {
	b.Helper()
	var f scaleFigures
	for b.Loop() {
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "AICPLAN_LOCK_DIR="+filepath.Join(dir, "locks"))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", args, err, out[max(0, len(out)-2000):])
		}
		f.processor += cmd.ProcessState.UserTime().Seconds() + cmd.ProcessState.SystemTime().Seconds()
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			f.peak = max(f.peak, float64(u.Maxrss)/1024)
		}
	}
	f.wall, f.processor = b.Elapsed().Seconds()/float64(b.N), f.processor/float64(b.N)
	b.ReportMetric(f.processor, "cpu-s/op")
	b.ReportMetric(f.peak, "MB-peak")
	return f
}

// scaleTable prints the figures of the sizes side by side.
func scaleTable(what []string, sizes []int, of map[string]map[int]scaleFigures) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%-10s", "cases")
	for _, n := range sizes {
		fmt.Fprintf(&t, " | %28d", n)
	}
	fmt.Fprintf(&t, "\n%-10s", "")
	for range sizes {
		fmt.Fprintf(&t, " | %8s %9s %9s", "wall s", "cpu s", "peak MB")
	}
	for _, w := range what {
		fmt.Fprintf(&t, "\n%-10s", w)
		for _, n := range sizes {
			f := of[w][n]
			fmt.Fprintf(&t, " | %8.2f %9.2f %9.0f", f.wall, f.processor, f.peak)
		}
	}
	return t.String()
}

// BenchmarkScale plans and applies 10^4, 10^5 and 10^6 synthetic cases through collect, dedupe, gate and
// export, then repeats it and adds 1,000 cases. Each runs once regardless of -benchtime, because the
// runs depend on the state of the earlier ones.
func BenchmarkScale(b *testing.B) {
	bin := built(b)
	what := []string{"plan", "apply", "again", "1000-more"}
	var sizes []int
	figures := map[string]map[int]scaleFigures{}
	for _, w := range what {
		figures[w] = map[int]scaleFigures{}
	}
	for _, side := range []int{10, 100, 1000} {
		dir := b.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(scalePlan), 0o644); err != nil {
			b.Fatal(err)
		}
		fresh, cases := 0, 1000*side
		sizes = append(sizes, cases)
		run := func(what, verb string, more ...string) {
			b.Run(fmt.Sprintf("cases=%d/%s", cases, what), func(b *testing.B) {
				if what == "apply" {
					fresh++
				}
				args := append([]string{fmt.Sprintf("--state-dir=state%d", fresh), verb, "--var", fmt.Sprintf("side=%d", side),
					"plan.hcl"}, more...)
				figures[what][cases] = scaleCommand(b, bin, dir, args...)
			})
		}
		run("plan", "plan")
		run("apply", "apply")
		run("again", "apply")
		run("1000-more", "apply", "--var", "more=1")
	}
	fmt.Println(scaleTable(what, sizes, figures))
}

const stagesPlan = `
variable "n" { type = number }
runtime "try" {
  kind      = "cpu"
  framework = "TRY"
  synthetic = true
}
locals {
  keys = { for i in range(var.n) : "k${i}" => i }
}
grid "g" {
  for_each = local.keys
  op       = "synthetic"
  axis "m" { values = [each.value, each.value + 1] }
}
collect "g" {
  for_each = grid.g
  grid     = each.value
  runtime  = runtime.try
}
gate "g" {
  for_each = collect.g
  input    = each.value
  check "rows" { condition = latency > 0 }
}
export "g" {
  for_each = gate.g
  input    = each.value
  file     = "${each.key}.csv"
}
`

// BenchmarkStages plans stages that for_each creates from each other.
func BenchmarkStages(b *testing.B) {
	bin := built(b)
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(stagesPlan), 0o644); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{100, 300, 1000} {
		b.Run(fmt.Sprintf("stages=%d", 4*n), func(b *testing.B) {
			scaleCommand(b, bin, dir, "plan", "--var", fmt.Sprintf("n=%d", n), "plan.hcl")
		})
	}
}
