package contract

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A trial is one fault in a separate folder.
type trial struct {
	*testing.T
	dir    string
	scene  *scene
	random *rand.Rand
}

func newTrial(T *testing.T, s *scene, random *rand.Rand) *trial {
	T.Helper()
	if _, err := exec.LookPath("python3"); err != nil && s == python {
		T.Skip("python3 is not installed")
	}

	dir, err := os.MkdirTemp("", "aicplan-soak-")
	if err != nil {
		T.Fatal(err)
	}

	T.Cleanup(func() {
		if T.Failed() {
			T.Logf("seed %d, folder %s", *soakSeed, dir)
		} else if err := os.RemoveAll(dir); err != nil {
			T.Error(err)
		}
	})

	t := &trial{T: T, dir: dir, scene: s, random: random}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o755); err != nil {
		T.Fatal(err)
	}

	t.write("plan.hcl", []byte(s.plan))
	for name, text := range s.files {
		t.write(name, []byte(text))
	}
	return t
}

func (t *trial) write(name string, data []byte) {
	if err := os.WriteFile(filepath.Join(t.dir, name), data, 0o644); err != nil {
		t.Error(err)
	}
}

// apply runs the plan to its end.
func (t *trial) apply() (string, int) { return t.run("apply", "plan.hcl") }

// must runs the plan and records an error if it does not complete.
func (t *trial) must() {
	if out, code := t.apply(); code != t.scene.exit {
		t.Errorf("apply exits with %d: %s", code, clip(out))
	}
}

// measured counts the measured cases of all journals. It returns -1 if ckpt list fails.
func (t *trial) measured() int {
	if _, err := os.Stat(filepath.Join(t.dir, ".aicplan")); errors.Is(err, fs.ErrNotExist) {
		return 0
	}

	cmd := t.command(binary, "ckpt", "list", "--json")
	out, err := cmd.Output()
	var list struct{ Journals []struct{ Measured int } }
	if err != nil || json.Unmarshal(out, &list) != nil {
		return -1
	}

	n := 0
	for _, j := range list.Journals {
		n += j.Measured
	}
	return n
}

var summary = regexp.MustCompile(`Apply: (\d+) measured`)

// recover runs the plan again after the fault and checks the guarantees: no
// acknowledged row is lost or measured again, the exports are those of an
// undisturbed run, and ckpt verify finds no damage. If files were damaged, rows
// may be lost, but ckpt verify has to report the damage first.
func (t *trial) recover(damaged bool) {
	acknowledged := t.measured()
	if acknowledged < 0 && !damaged {
		t.Errorf("ckpt list fails after the fault")
	}

	reported := false
	if damaged {
		_, code := t.run("ckpt", "verify")
		reported = code != 0
	}

	lost, code := 0, -1
	for try := 0; try < 3 && code != t.scene.exit; try++ {
		var out string
		out, code = t.apply()
		if m := summary.FindStringSubmatch(out); m != nil && try == 0 && acknowledged >= 0 {
			n, _ := strconv.Atoi(m[1])
			lost = max(0, acknowledged-(t.scene.cases-n))
		}
	}

	if code != t.scene.exit {
		t.Errorf("apply exits with %d after the fault", code)
	}
	if lost > 0 && !reported {
		t.Errorf("%d acknowledged rows were measured again", lost)
	}
	if t.digest() != t.scene.want {
		t.Errorf("the exports differ from those of an undisturbed run")
	}
	if damaged {
		return
	}

	if n := t.measured(); n != t.scene.cases {
		t.Errorf("%d rows at the end, want %d", n, t.scene.cases)
	}
	if out, code := t.run("ckpt", "verify"); code != 0 {
		t.Errorf("ckpt verify exits with %d: %s", code, clip(out))
	}
}

// checkNoProcessLeft checks that no process outlives the trial.
func (t *trial) checkNoProcessLeft() {
	var left []int
	for deadline := time.Now().Add(t.patience()); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if left = t.processes(); len(left) == 0 {
			return
		}
	}
	for _, pid := range left {
		t.Errorf("process %d is still running", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processes returns the processes whose working folder is in the trial.
func (t *trial) processes() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
		if err == nil && (cwd == t.dir || strings.HasPrefix(cwd, t.dir+"/")) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// patience is the time after which a command counts as hanging.
func (t *trial) patience() time.Duration { return max(5*time.Minute, 100*t.scene.took) }

// files returns the regular files below a folder of the trial, sorted.
func (t *trial) files(below string) []string {
	var out []string
	_ = filepath.WalkDir(filepath.Join(t.dir, below), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return nil // files may disappear during the walk
	})
	slices.Sort(out)
	return out
}

func (t *trial) journalSize() (n int64) {
	for _, path := range t.files(".aicplan/journal") {
		if info, err := os.Stat(path); err == nil {
			n += info.Size()
		}
	}
	return n
}

// clip shortens an output to one line.
func clip(out string) string {
	out = strings.Join(strings.Fields(out), " ")
	if len(out) > 400 {
		out = out[:200] + " ... " + out[len(out)-200:]
	}
	return out
}
