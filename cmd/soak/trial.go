package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// trial is one fault in folders of its own, and what came of it.
type trial struct {
	*bench
	scene  *scene
	env    []string
	tidy   []func()
	dir    string
	random *rand.Rand
	bad    []string

	acked, lost int
	recovery    time.Duration
	sameBytes   bool
	note        string
}

// trial makes the folders of a trial of the plain scene.
func (b *bench) trial(name string, random *rand.Rand) *trial {
	return b.in(b.plain, name, random)
}

func (b *bench) in(s *scene, name string, random *rand.Rand) *trial {
	t := &trial{bench: b, dir: filepath.Join(b.home, name), random: random}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		panic(err)
	}
	t.play(s)
	return t
}

// play sets the scene of the trial.
func (t *trial) play(s *scene) {
	t.scene = s
	t.write("plan.hcl", s.plan)
	if s.prepare != nil {
		if why := s.prepare(t); why != "" {
			s.missing = why
		}
	}
}

// clean ends what the trial began and unmounts what it mounted.
func (t *trial) clean() {
	for _, f := range slices.Backward(t.tidy) {
		f()
	}
	t.tidy = nil
}

// apply runs the scene to its end.
func (t *trial) apply() (string, int) { return t.status(t.words()...) }

// words are the command line of apply, with further flags.
func (t *trial) words(more ...string) []string {
	return slices.Concat([]string{"apply"}, more, t.scene.args, []string{"plan.hcl"})
}

func (t *trial) write(name, text string) {
	if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o644); err != nil {
		panic(err)
	}
}

func (t *trial) wrong(format string, args ...any) {
	t.bad = append(t.bad, fmt.Sprintf(format, args...))
}

// exports is the digest of what came out.
func (t *trial) exports() string { return t.scene.digest(t) }

func (t *trial) survived() bool { return len(t.bad) == 0 }

func (t *trial) troubles() string { return strings.Join(t.bad, "; ") }

func (t *trial) state() string { return filepath.Join(t.dir, ".aicplan") }

// acknowledged is how many measured cases the journals have; -1 where that
// cannot be told.
func (t *trial) acknowledged() int {
	if _, err := os.Stat(t.state()); errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	r := t.launch(t.command("ckpt", "list", "-json"))
	if r.wait() != 0 {
		return -1
	}
	var l struct{ Journals []struct{ Measured int } }
	if err := json.Unmarshal([]byte(r.out.String()), &l); err != nil {
		return -1
	}
	n := 0
	for _, j := range l.Journals {
		n += j.Measured
	}
	return n
}

func (t *trial) journalSize() int64 {
	var n int64
	_ = filepath.WalkDir(filepath.Join(t.state(), "journal"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // it is being written while we look
	})
	return n
}

var summary = regexp.MustCompile(`Apply: (\d+) measured, (\d+) reused`)

// recover runs the plan again after the fault until it is through, and holds
// what must hold: what was acknowledged is neither lost nor measured again, the
// exports are those of an undisturbed run and the state folder is whole.
// damaged says that files of the state were damaged: then rows may be lost, and
// the check of the state has to say so before.
func (t *trial) recover(damaged bool) {
	if t.acked = t.acknowledged(); t.acked < 0 && !damaged {
		t.wrong("ckpt list cannot read the state")
	}
	before := t.rows()
	begin := time.Now()
	told := 0
	if damaged {
		_, told = t.status("ckpt", "verify")
	}
	var codes []int
	for try := range 3 {
		out, code := t.apply()
		codes = append(codes, code)
		if m := summary.FindStringSubmatch(out); m != nil && try == 0 && t.acked >= 0 && !t.scene.follows {
			measured, _ := strconv.Atoi(m[1])
			t.lost = max(0, t.acked-(t.scene.cases-measured))
		}
		if t.scene.ended(code) {
			break
		}
	}
	t.recovery = time.Since(begin)
	if !damaged {
		t.lost = max(t.lost, t.again(before))
	}
	if !t.scene.ended(codes[len(codes)-1]) {
		t.wrong("apply ends with %v", codes)
	}
	if t.lost > 0 && (!damaged || told == 0) {
		t.wrong("%d acknowledged rows were measured again", t.lost)
	}
	if t.sameBytes = t.exports() == t.scene.want; !t.sameBytes {
		t.wrong("the exports differ from those of an undisturbed run")
	}
	if damaged {
		// A journal that is gone comes back with the next run of its stage: the
		// stage's table has the rows until then.
		t.status("ckpt", "gc")
		if _, code := t.status("ckpt", "verify"); code != 0 {
			t.note += fmt.Sprintf(", then verify %d", code)
		}
		return
	}
	t.whole()
}

// whole holds that all rows are there and the state folder has no damage.
func (t *trial) whole() {
	if n := t.acknowledged(); n != t.scene.cases {
		t.wrong("%d rows in the end, want %d", n, t.scene.cases)
	}
	if out, code := t.status("ckpt", "verify"); code != 0 {
		t.wrong("ckpt verify ends with %d: %s", code, clip(out))
	}
}

// clip is the beginning of an output.
func clip(out string) string {
	out = strings.Join(strings.Fields(out), " ")
	if len(out) > 400 {
		out = out[:200] + " ... " + out[len(out)-200:]
	}
	return out
}

// files are the regular files below a folder of the trial, sorted.
func (t *trial) files(below ...string) []string {
	var out []string
	for _, name := range below {
		_ = filepath.WalkDir(filepath.Join(t.dir, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				out = append(out, path)
			}
			return nil
		})
	}
	slices.Sort(out)
	return out
}

func (t *trial) read(name string) string {
	data, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		t.wrong("%v", err)
	}
	return string(data)
}
