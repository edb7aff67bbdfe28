package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStateRemovedDuringARun: appending to a removed journal fails, and the entry is not acknowledged.
func TestStateRemovedDuringARun(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"renamed": func(dir string) error { return os.Rename(dir, dir+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s := open(t, dir, Options{})
			j := journal(t, s)
			appendOK(t, j, entry("a", Measured, "1"))
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			if err := j.Append(entry("b", Measured, "2")); err == nil || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("got %v", err)
			}
			if _, ok := j.Has("b"); ok {
				t.Error("b was acknowledged")
			}
		})
	}
}

// TestGCBesideJobs: gc removes nothing while another store appends to a journal, such as a job of a cluster, which
// has no run lock. Its attachments are stored before the entries that name them.
func TestGCBesideJobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	writer := open(t, dir, Options{})
	j := journal(t, writer)
	appendOK(t, j, entry("x", Measured, "1"))
	digest, err := writer.PutBytes([]byte("an attachment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if _, err := open(t, dir, Options{}).GC(context.Background(), GCOptions{DryRun: dry}); !errors.Is(err, ErrLocked) {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
	if !writer.HasObject(digest) {
		t.Error("the attachment was removed")
	}
	appendOK(t, j, entry("y", Measured, "2"))
	wantEntries(t, dir, 5)
}

func wantEntries(t *testing.T, dir string, n int) {
	t.Helper()
	r, err := open(t, dir, Options{ReadOnly: true}).Verify(context.Background())
	if err != nil || r.Entries != n {
		t.Errorf("%d entries, want %d; %v", r.Entries, n, err)
	}
}

// TestStrayFiles: unrelated files in the state folder do not break any command.
func TestStrayFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	for _, name := range []string{".nfs0001", "journal/.DS_Store", "journal/gemm/.nfs0001", "journal/gemm/x",
		"stages/.DS_Store", "stages/x.txt", "objects/x", "objects/ab", "runs/x", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil && !errors.Is(err, os.ErrExist) {
			if info, serr := os.Stat(filepath.Join(dir, name)); serr != nil || !info.IsDir() {
				t.Fatal(err)
			}
		}
	}
	s := open(t, dir, Options{})
	if l, err := s.List(); err != nil || len(l.Stages) != 2 || len(l.Journals) != 1 {
		t.Errorf("list: %+v, %v", l, err)
	}
	if r, err := s.Verify(context.Background()); err != nil || !r.OK() {
		t.Errorf("verify: %+v, %v", r, err)
	}
	if _, err := s.GC(context.Background(), GCOptions{}); err != nil {
		t.Errorf("gc: %v", err)
	}
}

// TestRecordsThatCannotBeUsed: verify reports a record with a valid checksum and
// unusable contents, and an intact object that is not a table.
func TestRecordsThatCannotBeUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	opts := Options{ValidStage: func(r *StageRecord) error {
		if string(r.Info) == `"x"` {
			return errors.New("its info cannot be read")
		}
		return nil
	}}
	s := open(t, dir, opts)
	table, err := s.PutBytes(tableOf(t, "table"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.PutBytes([]byte("no table"))
	if err != nil {
		t.Fatal(err)
	}
	for address, r := range map[string]StageRecord{
		"gate.a": {Outputs: Outputs{Table: table}}, "gate.b": {Info: []byte(`"x"`)}, "gate.c": {Outputs: Outputs{Table: table,
			Ledger: text}},
	} {
		r.Address = address
		if err := s.WriteStage(&r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Verify(context.Background())
	if err != nil || r.OK() || len(r.Problems) != 2 ||
		!strings.Contains(r.Problems[0].Detail, "its info cannot be read") ||
		!strings.Contains(r.Problems[1].Detail, "it is the ledger of gate.c, and no table") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.ReadStage("gate.b"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the record that cannot be used: %v", err)
	}
	if records, err := s.Stages(); err != nil || len(records) != 2 {
		t.Errorf("%v, %v", records, err)
	}
	if _, err := s.GetRecord(text); err == nil || !strings.Contains(err.Error(), "is not a table") {
		t.Errorf("the object that is no table: %v", err)
	}
	if _, err := s.GetRecord(table); err != nil {
		t.Error(err)
	}
}
