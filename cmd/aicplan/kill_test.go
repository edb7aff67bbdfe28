package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"aicplan/sink/base/testutil"
)

// killPlan measures a synthetic op. Any two runs must export the same bytes.
const killPlan = `
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  workers   = 2
  synthetic = true
}
grid "s" {
  op = "synthetic"
  axis "a" { values = range(20) }
  axis "b" { values = range(20) }
  axis "delay_ms" { values = [1] }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.cpu
}
gate "s" {
  input = collect.s
  check "coverage" { min = 1.0 }
  check "duplicates" { max = 0 }
}
export "s" {
  input = gate.s
  file  = "s_perf.txt"
}
`

const killCases = 400

// TestKillAtAnyMoment kills the process group of an apply at random moments and runs the same command
// again. No acknowledged row may be measured again or lost, and the export must equal that of an
// undisturbed run. make soak does the same, and more, for hours.
func TestKillAtAnyMoment(t *testing.T) {
	t.Parallel()
	moments := testutil.Rounds(4, 8)
	if testing.Short() {
		moments = 3
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(killPlan), 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(binDir(t), "aicplan")
	quiet := newVictim(t, bin, dir, "quiet")
	if out, err := quiet.apply().CombinedOutput(); err != nil {
		t.Fatalf("undisturbed run: %v\n%s", err, out)
	}
	want := quiet.export(t)
	size := quiet.journalSize()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range moments {
		v := newVictim(t, bin, dir, fmt.Sprint("killed", i))
		at := int64(random.Float64() * float64(size) * 1.05) // a few are after the last row
		before := v.killAt(t, at)
		out, err := v.apply().CombinedOutput()
		if err != nil {
			t.Fatalf("kill %d at %d journal bytes, then: %v\n%s", i, at, err, out)
		}
		measured, reused := counts(t, out)
		t.Logf("killed with %d of %d rows acknowledged", before, killCases)
		if reused != before || measured != killCases-before {
			t.Errorf("kill %d: %d rows were acknowledged, the next run measured %d and reused %d", i, before, measured, reused)
		}
		if got := v.export(t); got != want {
			t.Errorf("kill %d: the export differs from that of an undisturbed run", i)
		}
		if n := v.acknowledged(t); n != killCases {
			t.Errorf("kill %d: %d rows in the end, want %d", i, n, killCases)
		}
	}
}

// victim is one state folder with its exports.
type victim struct{ bin, dir, state, out string }

func newVictim(t *testing.T, bin, dir, name string) *victim {
	t.Helper()
	base := t.TempDir()
	return &victim{bin: bin, dir: dir, state: filepath.Join(base, name+".state"), out: filepath.Join(base, name+".out")}
}

func (v *victim) command(args ...string) *exec.Cmd {
	cmd := exec.Command(v.bin, args...)
	cmd.Dir = v.dir
	cmd.Env = append(os.Environ(), "AICPLAN_STATE_DIR="+v.state, "AICPLAN_LOCK_DIR="+v.state+".locks")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (v *victim) apply() *exec.Cmd { return v.command("apply", "--out-dir", v.out, "plan.hcl") }

// killAt starts an apply, kills its process group when the journal has the given size, and returns the
// number of rows acknowledged by then.
func (v *victim) killAt(t *testing.T, bytes int64) int {
	t.Helper()
	cmd := v.apply()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for v.journalSize() < bytes {
		select {
		case <-ended:
			return v.acknowledged(t)
		case <-tick.C:
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	<-ended
	return v.acknowledged(t)
}

func (v *victim) journalSize() int64 {
	var n int64
	err := filepath.WalkDir(filepath.Join(v.state, "journal"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the journal is being written
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return n
}

// acknowledged returns the number of measured cases in the state folder.
func (v *victim) acknowledged(t *testing.T) int {
	t.Helper()
	out, err := v.command("ckpt", "list", "--json").Output()
	if err != nil {
		t.Fatalf("ckpt list: %v", err)
	}
	var l struct{ Journals []struct{ Measured int } }
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, j := range l.Journals {
		n += j.Measured
	}
	return n
}

func (v *victim) export(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(v.out, "s_perf.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n != killCases+1 {
		t.Errorf("%d lines in the export, want %d", n, killCases+1)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

var summary = regexp.MustCompile(`Apply: (\d+) measured, (\d+) reused, (\d+) failed`)

// counts parses the last line of an apply. If there was nothing to do, all cases were reused.
func counts(t *testing.T, out []byte) (measured, reused int) {
	t.Helper()
	m := summary.FindSubmatch(out)
	if m == nil {
		if bytes.Contains(out, []byte("nothing to do")) {
			return 0, killCases
		}
		t.Fatalf("no summary in:\n%s", out)
	}
	number := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return number(m[1]), number(m[2])
}
