package checkpoint

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// age makes everything in dir as old as that.
func age(t *testing.T, dir string, at time.Time) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, at, at)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func dryRun(t *testing.T, dir string) (rep *GCReport, what []string) {
	t.Helper()
	rep, err := open(t, dir, Options{ReadOnly: true}).GC(context.Background(), GCOptions{DryRun: true, KeepRuns: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Removed {
		what = append(what, r.Why)
	}
	slices.Sort(what)
	return rep, what
}

// A dry gc during a run needs no lock, says who is at work, and lists nothing
// of what that has written.
func TestDryRunBesideARun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	garbage := open(t, dir, Options{})
	again := "a table that nobody names, until the run makes it again"
	if _, err := garbage.PutBytes([]byte(again)); err != nil {
		t.Fatal(err)
	}
	age(t, dir, time.Now().Add(-time.Hour))

	work := open(t, dir, Options{})
	lock, err := work.Lock(LockInfo{Command: "aicplan apply x.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	rep, what := dryRun(t, dir)
	if rep.Active == nil || rep.Active.Command != "aicplan apply x.hcl" {
		t.Errorf("active: %+v", rep.Active)
	}
	old := []string{"no stage record names it", "no stage record names it", "older than the last 2 runs"}
	if d := cmp.Diff(old, what); d != "" {
		t.Errorf("what was garbage before the run: %s", d)
	}
	if len(rep.Compacted) != 1 {
		t.Errorf("a journal that the run does not touch: %+v", rep.Compacted)
	}

	// What the run writes: a table before its record, one that lay about, a file
	// under its temporary name, rows, and half a frame of the next.
	if _, err := work.PutBytes([]byte("a table whose stage has not ended")); err != nil {
		t.Fatal(err)
	}
	if _, err := work.PutBytes([]byte(again)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stages", tempPrefix+"1"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	appendOK(t, journal(t, work), entry("z", Measured, "9"))
	segments, err := segmentPaths(journal(t, work).dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(segments[len(segments)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("torn"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	before := snapshot(t, dir)
	rep, what = dryRun(t, dir)
	if d := cmp.Diff([]string{"no stage record names it", "older than the last 2 runs"}, what); d != "" {
		t.Errorf("beside the run: %s", d)
	}
	if len(rep.Compacted) != 0 {
		t.Errorf("a journal that is written is not rewritten: %+v", rep.Compacted)
	}
	bytes := int64(0)
	for _, r := range rep.Removed {
		bytes += r.Bytes
	}
	if rep.Bytes != bytes {
		t.Errorf("%d bytes, the list has %d", rep.Bytes, bytes)
	}
	if d := cmp.Diff(before, snapshot(t, dir)); d != "" {
		t.Errorf("a dry run changed something: %s", d)
	}
	if _, err := open(t, dir, Options{}).GC(context.Background(), GCOptions{}); err == nil {
		t.Error("gc itself does not wait for the run")
	}

	// The run ends without a record: now all of it is garbage.
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	rep, what = dryRun(t, dir)
	if rep.Active != nil || len(what) != 5 || len(rep.Compacted) != 1 {
		t.Errorf("after the run: %+v, %q, %+v", rep.Active, what, rep.Compacted)
	}
}

func TestRunning(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Holder)
		want   bool
	}{
		"this process":      {func(*Holder) {}, true},
		"a dead one":        {func(h *Holder) { h.PID = 1 << 30 }, false},
		"another boot":      {func(h *Holder) { h.BootID = "x" }, true}, // or a machine of the same name
		"another machine":   {func(h *Holder) { h.Host, h.BootID, h.PID = "far-away", "x", 1<<30 }, true},
		"another container": {func(h *Holder) { h.Host, h.PID = "container-2", 1<<30 }, true},
	} {
		s := newStore(t)
		if err := s.ensure(); err != nil {
			t.Fatal(err)
		}
		h := self(LockInfo{Command: "aicplan apply"}, time.Now())
		tt.change(&h)
		if err := s.writeHolder(h); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Running(); err != nil || (got != nil) != tt.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	s := newStore(t)
	if h, err := s.Running(); h != nil || err != nil {
		t.Errorf("nobody: %+v, %v", h, err)
	}
	if _, err := s.Lock(LockInfo{}); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Running(); h != nil || err != nil {
		t.Errorf("itself: %+v, %v", h, err)
	}
	if err := os.WriteFile(s.path("lock.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if h, err := open(t, s.dir, Options{}).Running(); h != nil || err != nil {
		t.Errorf("a damaged mark: %+v, %v", h, err)
	}
}
