package contract

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A scene is a plan that faults disturb. Its rows depend only on the case, so every complete run exports
// the same bytes.
type scene struct {
	name    string
	plan    string
	files   map[string]string // besides plan.hcl
	exports []string          // below out
	exit    int               // exit code of a complete run

	want    string        // digest of the exports of an undisturbed run
	took    time.Duration // of an undisturbed run
	journal int64         // bytes of its journal
	cases   int           // measured rows
}

var plain = &scene{name: "plain", exports: []string{"g_perf.txt", "g_perf.parquet"}, plan: `
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  workers   = 2
  synthetic = true
}
grid "g" {
  op = "synthetic"
  axis "a" { values = range(40) }
  axis "b" { values = range(2) }
  axis "delay_ms" { values = [4] }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.cpu
  ramp    = [4, 20]
}
dedupe "g" {
  input = collect.g
}
gate "g" {
  input = dedupe.g
  check "coverage" { min = 1 }
  check "duplicates" { max = 0 }
}
export "csv" {
  input = gate.g
  file  = "g_perf.txt"
}
export "parquet" {
  input  = gate.g
  file   = "g_perf.parquet"
  format = "parquet"
}
report "g" {
  title  = "soak"
  inputs = gate.g
}
`}

var breaker = &scene{name: "breaker", exports: []string{"g_perf.txt"}, exit: 3, plan: `
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  workers   = 2
  synthetic = true
}
grid "g" {
  op = "synthetic"
  axis "a" { values = range(30) }
  axis "delay_ms" { values = [6] }
  axis "fault" { values = ["none", "error"] }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.cpu
  breaker {
    group_by = ["fault"]
    after    = 3
  }
}
verify "g" {
  collect = collect.g
  sample  = 8
}
gate "g" {
  input = verify.g
  check "rows" { condition = latency > 0 }
}
export "g" {
  input         = gate.g
  file          = "g_perf.txt"
  allow_partial = true
}
`}

var python = &scene{name: "python", exports: []string{"p_perf.txt"}, files: map[string]string{"ops.py": `
import time

def op(m, bench):
    time.sleep(0.01)
    return {"latency": 1.0 + m, "kernel_source": "x"}
`}, plan: `
runtime "py" {
  kind      = "python"
  framework = "TRY"
  device    = "cpu"
  workers   = 2
  path      = ["ops.py"]
}
grid "p" {
  op = "op"
  axis "m" { values = range(30) }
}
collect "p" {
  grid    = grid.p
  runtime = runtime.py
}
export "p" {
  input = collect.p
  file  = "p_perf.txt"
}
`}

// rehearse runs the scene once without a fault and records the expected results of every trial.
func (s *scene) rehearse(parent *testing.T) {
	parent.Run("rehearsal of "+s.name, func(T *testing.T) {
		t := newTrial(T, s, nil)
		begin := time.Now()
		t.must()
		s.took = time.Since(begin)
		s.want, s.journal, s.cases = t.digest(), t.journalSize(), t.measured()
		t.checkNoProcessLeft()
		if s.want == "" || s.cases <= 0 {
			t.Errorf("%d rows, digest of the exports %q", s.cases, s.want)
		}
	})
}

// digest returns the SHA-256 of the exported files, or "" if one of them is missing.
func (t *trial) digest() string {
	sum := sha256.New()
	for _, name := range t.scene.exports {
		data, err := os.ReadFile(filepath.Join(t.dir, "out", name))
		if err != nil {
			return ""
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
