package checkpoint

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/apache/arrow/go/v17/arrow/array"

	"aicplan/sink/table"
)

func TestObjects(t *testing.T) {
	s := newStore(t)
	d, err := s.PutBytes([]byte("hello"))
	if err != nil || d != Digest([]byte("hello")) || !s.HasObject(d) {
		t.Fatalf("%s, %v", d, err)
	}
	if again, err := s.PutBytes([]byte("hello")); err != nil || again != d {
		t.Errorf("%s, %v", again, err)
	}
	if data, err := s.GetBytes(d); err != nil || string(data) != "hello" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := s.GetBytes(Digest([]byte("other"))); !errors.Is(err, ErrMissing) {
		t.Errorf("missing: %v", err)
	}
	for _, bad := range []string{"", "hello", "sha256:", "sha256:../../etc/passwd", d[:70], d + "0", strings.ToUpper(d)} {
		if _, err := s.GetBytes(bad); err == nil || !strings.Contains(err.Error(), "is not a digest") {
			t.Errorf("GetBytes(%q): %v", bad, err)
		}
		if s.HasObject(bad) {
			t.Errorf("HasObject(%q)", bad)
		}
	}
	b := table.NewBuilder()
	if err := b.Append(map[string]any{"m": 1, "dtype": "fp8", "latency": 0.5, "power": nil}); err != nil {
		t.Fatal(err)
	}
	rec := b.Record()
	d, err = s.PutRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.GetRecord(d)
	if err != nil {
		t.Fatal(err)
	}
	if !rec.Schema().Equal(back.Schema()) || !array.RecordEqual(rec, back) {
		t.Errorf("%v -> %v", rec, back)
	}
}

func TestCorruptObjectIsReportedAndMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var warnings []string
	s := open(t, dir, Options{Warn: func(m string) { warnings = append(warnings, m) }})
	data := []byte("some bytes that matter")
	d, err := s.PutBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.ObjectPath(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, data[:len(data)-1], append(slices.Clone(data), 0),
		[]byte("same bytes that matter")} {
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		warnings = nil
		ro := open(t, dir, Options{ReadOnly: true})
		if _, err := ro.GetBytes(d); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", bad, err)
		}
		if !s.HasObject(d) {
			t.Error("a read-only store moved the object")
		}
		_, err := s.GetBytes(d)
		var ce *CorruptError
		if !errors.As(err, &ce) || ce.Path != path {
			t.Fatalf("%q: %v", bad, err)
		}
		if aside, err := os.ReadFile(path + corruptSuffix); err != nil || string(aside) != string(bad) {
			t.Errorf("put aside: %q, %v", aside, err)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], path) ||
			!strings.Contains(warnings[0], "treated as missing") {
			t.Errorf("warnings: %q", warnings)
		}
		if _, err := s.GetBytes(d); !errors.Is(err, ErrMissing) {
			t.Errorf("the second time: %v", err)
		}
		if _, err := s.PutBytes(data); err != nil {
			t.Fatal(err)
		}
		if got, err := s.GetBytes(d); err != nil || string(got) != string(data) {
			t.Errorf("after storing it again: %q, %v", got, err)
		}
	}
	if err := os.WriteFile(path, []byte("bad"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutBytes(data); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetBytes(d); err != nil || string(got) != string(data) {
		t.Errorf("storing over a damaged one: %q, %v", got, err)
	}
}

func sample(address string) *StageRecord {
	return &StageRecord{
		Address: address, Kind: "collect", Key: Digest([]byte(address)),
		Inputs:  json.RawMessage(`{"filter":"m < 4 && n > 2"}`),
		Outputs: Outputs{Table: Digest([]byte("t")), Planned: Digest([]byte("p"))},
		Status:  "ok", Info: json.RawMessage(`{"op":"gemm"}`), Counts: json.RawMessage(`{"planned":3}`),
		Values: json.RawMessage(`{"rows":3}`),
		Reason: "stale: measure.samples 6 -> 12", RunID: "r", FinishedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000,
			time.UTC), Seconds: 1.25,
	}
}

func TestStageRecords(t *testing.T) {
	s := newStore(t)
	addresses := []string{"collect.gemm", `module.m.collect.gemm["fp8"]`, `grid.x["../../etc"]`, "collect.GEMM",
		`grid.y["größe/ü"]`, `grid.` + strings.Repeat("long", 100), `grid.` + strings.Repeat("long", 100) + "er", ".hidden"}
	for _, a := range addresses {
		if _, err := s.ReadStage(a); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v", a, err)
		}
		if err := s.WriteStage(sample(a)); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range addresses {
		got, err := s.ReadStage(a)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(sample(a), got); d != "" {
			t.Errorf("%s: %s", a, d)
		}
	}
	all, err := s.Stages()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		got = append(got, r.Address)
	}
	slices.Sort(addresses)
	if d := cmp.Diff(addresses, got); d != "" {
		t.Error(d)
	}
	if entries, err := os.ReadDir(s.path("stages")); err != nil || len(entries) != len(addresses) {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

func TestDamagedStageRecordIsNeverBelieved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	warned := 0
	s := open(t, dir, Options{Warn: func(string) { warned++ }})
	if err := s.WriteStage(sample("collect.gemm")); err != nil {
		t.Fatal(err)
	}
	path := s.stagePath("collect.gemm")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Index(string(whole), `"record":`) + len(`"record":`)
	for n := body; n < len(whole)-2; n++ {
		bad := slices.Clone(whole)
		bad[n] ^= 0x01
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if rec, err := s.ReadStage("collect.gemm"); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d (%q): %v, %v", n, bad[max(0, n-5):n+5], rec, err)
		}
	}
	for n := range len(whole) - 1 {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadStage("collect.gemm"); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if warned == 0 {
		t.Error("nothing was reported")
	}
	if err := s.WriteStage(sample("grid.other")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.stagePath("grid.other"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadStage("collect.gemm"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a record under another's name: %v", err)
	}
}

func TestWriteErrorsNameThePathAndAWayOut(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault func(ff *faultyFiles)
		errno error
		want  string
	}{
		{"disk full", func(ff *faultyFiles) { ff.budget = 1 }, syscall.ENOSPC,
			"free some space there and run the same command again"},
		{"no permission", func(ff *faultyFiles) { ff.create = syscall.EACCES }, syscall.EACCES,
			"--state-dir or AICPLAN_STATE_DIR chooses another"},
		{"read-only disk", func(ff *faultyFiles) { ff.create = syscall.EROFS }, syscall.EROFS,
			"choose a folder on a file system that is not read-only"},
		{"no folder", func(ff *faultyFiles) { ff.mkdir = syscall.EACCES }, syscall.EACCES, "cannot create"},
		{"failed sync", func(ff *faultyFiles) { ff.sync = syscall.EIO }, syscall.EIO, "the disk reports a fault"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			ff := newFaultyFiles()
			s := open(t, dir, Options{files: ff})
			ff.set(func() { tc.fault(ff) })
			d, err := s.PutBytes([]byte("hello"))
			if !errors.Is(err, tc.errno) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %q, %v", d, err)
			}
			if s.HasObject(Digest([]byte("hello"))) {
				t.Error("the object is there all the same")
			}
			*ff = faultyFiles{budget: -1, synced: ff.synced, named: ff.named}
			if _, err := s.PutBytes([]byte("hello")); err != nil {
				t.Errorf("when the fault is gone: %v", err)
			}
			if stray, err := s.strays(); err != nil || len(stray) > 0 {
				t.Errorf("left behind: %v, %v", stray, err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, "state"), Options{})
	if err == nil || !strings.Contains(err.Error(), "a part of the path is a file") {
		t.Errorf("got %v", err)
	}
}

func TestRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	s := open(t, dir, Options{Now: func() time.Time { return now }})
	if _, err := s.LatestRun(); !errors.Is(err, ErrMissing) {
		t.Errorf("no runs yet: %v", err)
	}
	var ids []string
	for range 5 {
		r, err := s.NewRun()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
		if info, err := os.Stat(r.Dir); err != nil || !info.IsDir() {
			t.Errorf("%v", err)
		}
	}
	now = now.Add(-time.Hour) // the clock was set back
	late, err := s.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, late.ID)
	if !slices.IsSorted(ids) || !strings.HasPrefix(ids[0], "20260102T030405.678-") {
		t.Errorf("ids: %v", ids)
	}
	runs, err := s.Runs()
	var got []string
	for _, r := range runs {
		got = append(got, r.ID)
	}
	if d := cmp.Diff(ids, got); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	if last, err := s.LatestRun(); err != nil || last.ID != late.ID {
		t.Errorf("latest: %v, %v", last, err)
	}
}
