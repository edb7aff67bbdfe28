package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicplan/sink/table"
)

// filled returns a store with two stages that share an object, an unreferenced object, a journal with
// repeated entries in two segments, and three runs.
func filled(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir, Options{})
	put := func(text string) string {
		d, err := s.PutBytes(tableOf(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	put("orphan")
	for _, r := range []*StageRecord{
		{Address: "collect.gemm", Kind: "collect",
			Outputs: Outputs{Table: put("table"), Ledger: put("ledger"), Planned: put("cases")}},
		{Address: "grid.gemm", Kind: "grid", Outputs: Outputs{Planned: put("cases")}},
	} {
		if err := s.WriteStage(r); err != nil {
			t.Fatal(err)
		}
	}
	appendOK(t, journal(t, s), entry("a", Failed, "no"), entry("b", Measured, "1"))
	for range 3 {
		if _, err := s.NewRun(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	appendOK(t, journal(t, s), entry("a", Measured, "2"), entry("c", Failed, "no"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// tableOf returns an encoded table of one cell.
func tableOf(t *testing.T, text string) []byte {
	t.Helper()
	b := table.NewBuilder()
	if err := b.Append(map[string]any{"text": text}); err != nil {
		t.Fatal(err)
	}
	data, err := table.EncodeIPC(b.Record())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestListAndShow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	empty, err := open(t, dir, Options{ReadOnly: true}).List()
	if err != nil || len(empty.Stages)+len(empty.Journals)+len(empty.Runs)+empty.Objects.Count != 0 {
		t.Errorf("%+v, %v", empty, err)
	}
	filled(t, dir)
	s := open(t, dir, Options{ReadOnly: true})
	size := int64(len(tableOf(t, "table"))) // the others have as many bytes, being padded
	l, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Stages) != 2 || l.Stages[0].Record.Address != "collect.gemm" || l.Stages[0].Bytes() != 3*size {
		t.Errorf("stages: %+v", l.Stages)
	}
	if l.Objects != (ObjectStats{Count: 4, Bytes: 4 * size}) || len(l.Runs) != 3 {
		t.Errorf("objects %+v, runs %v", l.Objects, l.Runs)
	}
	if len(l.Journals) != 1 || l.Journals[0].Measured != 2 || l.Journals[0].Failed != 1 || l.Journals[0].Segments != 2 ||
		l.Journals[0].Context.Op != "gemm" || l.Journals[0].Bytes == 0 {
		t.Errorf("journals: %+v", l.Journals)
	}
	sum := l.Stages[0]
	var roles []string
	for _, o := range sum.Objects {
		roles = append(roles, fmt.Sprintf("%s %d %v", o.Role, o.Bytes, o.Present))
	}
	if d := cmp.Diff([]string{fmt.Sprintf("table %d true", size), fmt.Sprintf("ledger %d true", size),
		fmt.Sprintf("planned %d true", size)}, roles); d != "" {
		t.Error(d)
	}
	if err := os.Remove(sum.Objects[1].Path); err != nil {
		t.Fatal(err)
	}
	if l, err = s.List(); err != nil || l.Stages[0].Objects[1].Present || l.Stages[0].Bytes() != 2*size {
		t.Errorf("with an object gone: %+v, %v", l, err)
	}
	if _, err := s.ReadStage("collect.other"); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

func TestVerify(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	s := open(t, dir, Options{ReadOnly: true})
	check := func(wantOK bool, want ...string) {
		t.Helper()
		r, err := s.Verify(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range r.Problems {
			got = append(got, p.Detail)
			if p.Fix == "" || p.Path == "" {
				t.Errorf("a problem without a place or a way out: %+v", p)
			}
		}
		if r.OK() != wantOK || len(got) != len(want) {
			t.Fatalf("OK %v, problems:\n%s", r.OK(), strings.Join(got, "\n"))
		}
		for i, w := range want {
			if !strings.Contains(got[i], w) {
				t.Errorf("problem %q, want %q", got[i], w)
			}
		}
	}
	r, err := s.Verify(ctx)
	if err != nil || !r.OK() || r.Stages != 2 || r.Objects.Count != 4 || r.Journals != 1 || r.Entries != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	contexts, err := s.Contexts("gemm")
	if err != nil || len(contexts) != 1 {
		t.Fatal(contexts, err)
	}
	segments, err := segmentPaths(contexts[0].Dir)
	if err != nil {
		t.Fatal(err)
	}
	change := func(path string, f func([]byte) []byte) (undo func()) {
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(slices.Clone(old)), 0o644); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(path, old, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}

	undo := change(segments[0], func(b []byte) []byte { return b[:len(b)-1] })
	check(true, "are an unfinished write")
	undo()
	undo = change(segments[0], flip(len(segmentMagic)+frameHeader+3))
	check(false, "are damaged")
	undo()
	digest := Digest(tableOf(t, "table"))
	object, err := s.ObjectPath(digest)
	if err != nil {
		t.Fatal(err)
	}
	undo = change(object, flip(0))
	check(false, "bytes have the digest", "the table of collect.gemm, object "+short(digest)+", is damaged")
	undo()
	if err := os.Rename(object, object+"x"); err != nil {
		t.Fatal(err)
	}
	check(false, "the table of collect.gemm, object "+short(digest)+", is missing")
	if err := os.Rename(object+"x", object); err != nil {
		t.Fatal(err)
	}
	undo = change(s.stagePath("grid.gemm"), func(b []byte) []byte { return b[:20] })
	check(false, "is corrupt")
	undo()
	undo = change(filepath.Join(contexts[0].Dir, "context.json"),
		func(b []byte) []byte { return []byte(strings.Replace(string(b), "Xeon", "Epyc", 1)) })
	check(true, "it describes another context")
	undo()
	if err := os.WriteFile(filepath.Join(dir, "objects", tempPrefix+"1"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	check(true, "left by a write that did not finish")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Verify(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func snapshot(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "lock") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[strings.TrimPrefix(path, dir)] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestGCRemovesUnfinishedHosts: gc removes the temporary file of a worker host if its writer was
// killed. Recent temporary files and complete files remain.
func TestGCRemovesUnfinishedHosts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	hosts := filepath.Join(dir, "hosts")
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host-old.tmp", "host-new.tmp", "host.zip"} {
		path := filepath.Join(hosts, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if name != "host-new.tmp" {
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := open(t, dir, Options{}).GC(context.Background(), GCOptions{}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(hosts)
	if err != nil || len(left) != 2 || left[0].Name() != "host-new.tmp" || left[1].Name() != "host.zip" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestGC(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "stages", tempPrefix+"1"), []byte("left"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	s := open(t, dir, Options{})
	plan, err := s.GC(ctx, GCOptions{DryRun: true, KeepRuns: 1})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, snapshot(t, dir)); d != "" {
		t.Errorf("a dry run changed something: %s", d)
	}
	var why []string
	for _, r := range plan.Removed {
		why = append(why, r.Why)
	}
	slices.Sort(why)
	want := []string{"left by a write that did not finish", "no stage record names it", "older than the last 1 runs",
		"older than the last 1 runs"}
	if d := cmp.Diff(want, why); d != "" {
		t.Error(d)
	}
	if plan.Kept.Count != 3 || len(plan.Compacted) != 1 || plan.Compacted[0].Entries != 3 ||
		plan.Compacted[0].Segments != 2 {
		t.Errorf("plan: %+v", plan)
	}

	other := open(t, dir, Options{})
	lock, err := other.Lock(LockInfo{Command: "aicplan apply"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(ctx, GCOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("during a run: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}

	done, err := s.GC(ctx, GCOptions{KeepRuns: 1})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plan, done); d != "" {
		t.Errorf("what was done is not what was announced: %s", d)
	}
	freed := int64(0)
	for _, n := range before {
		freed += n
	}
	for _, n := range snapshot(t, dir) {
		freed -= n
	}
	if freed != done.Bytes {
		t.Errorf("%d bytes were freed, %d reported", freed, done.Bytes)
	}
	if runs, err := s.Runs(); err != nil || len(runs) != 1 {
		t.Errorf("runs: %v, %v", runs, err)
	}
	if d := cmp.Diff([]string{"b m 1", "a m 2", "c f no"}, contents(t, journal(t, s))); d != "" {
		t.Errorf("the journal after: %s", d)
	}
	if r, err := s.Verify(ctx); err != nil || !r.OK() || len(r.Problems) != 0 {
		t.Errorf("after: %+v, %v", r, err)
	}
	appendOK(t, journal(t, s), entry("d", Measured, "3"))
	if again, err := s.GC(ctx, GCOptions{KeepRuns: 1}); err != nil || len(again.Removed)+len(again.Compacted) != 0 {
		t.Errorf("the second time, with the journal open: %+v, %v", again, err)
	}
}

// A failed compaction leaves every entry, whatever step fails.
func TestFailedCompactionKeepsTheJournal(t *testing.T) {
	t.Parallel()
	for budget := int64(0); budget < 160; budget += 5 {
		dir := filepath.Join(t.TempDir(), "state")
		filled(t, dir)
		ff := newFaultyFiles()
		s := open(t, dir, Options{files: ff})
		if _, err := s.Lock(LockInfo{}); err != nil {
			t.Fatal(err)
		}
		ff.set(func() { ff.budget = budget })
		_, err := s.GC(context.Background(), GCOptions{})
		if err != nil && !strings.Contains(err.Error(), "free some space there") {
			t.Fatalf("budget %d: %v", budget, err)
		}
		if err == nil && budget < 30 {
			t.Fatalf("budget %d: the disk was never full", budget)
		}
		j := journal(t, open(t, dir, Options{}))
		got := contents(t, j)
		slices.Sort(got)
		if d := cmp.Diff([]string{"a m 2", "b m 1", "c f no"}, got); d != "" {
			t.Fatalf("budget %d: %s", budget, d)
		}
	}
}

func TestContextsAndNearest(t *testing.T) {
	s := newStore(t)
	context := func(version, device string, samples int) Context {
		return Context{Op: "gemm", Runtime: "cuda", Framework: "TRTLLM", Version: version, Device: device,
			Env: map[string]string{"driver": "580.1"}, Measure: map[string]any{"samples": samples}}
	}
	if near, why, err := s.Nearest(context("1", "H200", 6)); near != nil || why != nil || err != nil {
		t.Errorf("nothing was measured: %v, %v, %v", near, why, err)
	}
	for _, c := range []Context{context("1", "H200", 6), context("2", "H100", 12),
		{Op: "nccl/all_reduce", Runtime: "nccl"}} {
		j, err := s.Journal(c)
		if err != nil {
			t.Fatal(err)
		}
		appendOK(t, j, entry("x", Measured, "1"))
	}
	list, err := s.Contexts("gemm")
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	all, err := s.Contexts("")
	if err != nil || len(all) != 3 || all[2].Op != "nccl/all_reduce" {
		t.Fatalf("%v, %v", all, err)
	}
	// Fields that only some contexts have are reported one by one.
	instrument := context("1", "H200", 6)
	instrument.Extra, instrument.Env = map[string]any{"instrument": 2}, nil
	for _, tc := range []struct {
		c    Context
		want []string
	}{
		{instrument, []string{`env.driver removed (was "580.1")`, "extra.instrument added (2)"}},
		{context("1", "H200", 12), []string{"measure.samples 6 -> 12"}},
		{context("2", "H100", 6), []string{"measure.samples 12 -> 6"}},
		{context("1", "H200", 6), []string{`device "H100" -> "H200"`, "measure.samples 12 -> 6", `version "2" -> "1"`}}, // never itself
	} {
		near, why, err := s.Nearest(tc.c)
		if err != nil || near == nil {
			t.Fatal(near, err)
		}
		if d := cmp.Diff(tc.want, why); d != "" {
			t.Error(d)
		}
	}
}
