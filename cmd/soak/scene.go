package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// cases is how many the plan has.
const cases = 80

// thePlan measures cases whose rows depend on nothing but the case, so that any
// two runs must export the same bytes.
const thePlan = `
variable "faults" {
  type    = list(string)
  default = ["none"]
}
variable "size" {
  type    = number
  default = 40
}
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  workers   = 2
  synthetic = true
}
grid "g" {
  op = "synthetic"
  axis "a" { values = range(var.size) }
  axis "b" { values = range(2) }
  axis "delay_ms" { values = [4] }
  axis "fault" { values = var.faults }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.cpu
}
dedupe "g" {
  input = collect.g
}
gate "g" {
  input = dedupe.g
  check "coverage" { min = 0.5 }
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
`

// scene is a run that faults fall on.
type scene struct {
	name    string
	plan    string
	args    []string              // of apply, before the plan
	ends    []int                 // the exit codes of a whole run; 0 where none is given
	follows bool                  // apply counts as measured what jobs measured before it
	prepare func(t *trial) string // makes what the run needs; says why it cannot
	digest  func(t *trial) string // of what came out; "" where it is not all there

	once    sync.Once
	missing string        // why it cannot be run here
	want    string        // the digest of an undisturbed run
	quiet   time.Duration // how long that took
	journal int64         // bytes of its journal
	cases   int           // rows that it has
}

// plain is the scene of most faults.
func plain() *scene {
	return &scene{name: "plain", plan: thePlan, digest: files("g_perf.txt", "g_perf.parquet")}
}

// files is the digest of exported files.
func files(names ...string) func(t *trial) string {
	return func(t *trial) string {
		sum := sha256.New()
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(t.dir, "out", name))
			if err != nil {
				return ""
			}
			fmt.Fprintf(sum, "%s %d\n", name, len(data))
			sum.Write(data)
		}
		return fmt.Sprintf("%x", sum.Sum(nil))
	}
}

// rehearse runs the scene undisturbed, once: what faults have to come to.
func (s *scene) rehearse(b *bench) error {
	var err error
	s.once.Do(func() {
		t := b.in(s, "quiet-"+slug(s.name), rand.New(rand.NewPCG(0, 0)))
		if s.missing != "" {
			return
		}
		defer t.leftovers()
		defer t.clean()
		begin := time.Now()
		out, code := t.apply()
		if s.quiet = time.Since(begin); !s.ended(code) {
			err = fmt.Errorf("an undisturbed apply (%s) ends with %d:\n%s", s.name, code, out)
			return
		}
		s.want, s.journal, s.cases = s.digest(t), t.journalSize(), t.acknowledged()
		if s.cases <= 0 || s.want == "" || !t.survived() {
			err = fmt.Errorf("an undisturbed apply (%s) has %d rows: %s\n%s", s.name, s.cases, t.troubles(), out)
			return
		}
		b.quietest(s.quiet)
	})
	return err
}

// ended says whether an exit code is that of a whole run.
func (s *scene) ended(code int) bool {
	return code == 0 && len(s.ends) == 0 || slices.Contains(s.ends, code)
}

// bench is what trials share.
type bench struct {
	binary, home string
	plain        *scene
	shared       []string // two mounts of one folder
	disks        disks

	mu   sync.Mutex
	slow time.Duration // the longest undisturbed run
}

func newBench(binary, home string) (*bench, error) {
	b := &bench{binary: binary, home: home, plain: plain()}
	if err := os.MkdirAll(filepath.Join(home, "tmp"), 0o755); err != nil {
		return nil, err
	}
	if err := b.plain.rehearse(b); err != nil {
		return nil, err
	}
	if b.plain.cases != cases {
		return nil, fmt.Errorf("an undisturbed apply has %d rows, want %d", b.plain.cases, cases)
	}
	return b, nil
}

func (b *bench) quietest(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow = max(b.slow, took)
}

// patience is how long a command may take before it is asked whether it does
// anything: long beside an undisturbed run, whose time says how fast the machine
// is.
func (b *bench) patience() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(time.Minute, 30*b.slow)
}
