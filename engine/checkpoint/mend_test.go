package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDamagedFormat: two bytes that are wrong or missing do not cost the state.
func TestDamagedFormat(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"emptied": func(p string) error { return os.Truncate(p, 0) },
		"deleted": os.Remove,
		"flipped": func(p string) error { return os.WriteFile(p, []byte("q\n"), 0o644) },
		"a folder": func(p string) error {
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o755))
		},
		"a full folder": func(p string) error {
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o755), os.WriteFile(filepath.Join(p, "x"), nil, 0o644))
		},
		"noise": func(p string) error { return os.WriteFile(p, []byte("\x00\xff\x17 garbage"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			filled(t, dir)
			if err := damage(filepath.Join(dir, "format")); err != nil {
				t.Fatal(err)
			}
			var said []string
			s, err := Open(dir, Options{Warn: func(l string) { said = append(said, l) }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if len(said) != 1 || !strings.Contains(said[0], "puts the file back") {
				t.Errorf("said %q", said)
			}
			if _, err := s.Lock(LockInfo{}); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "format")); err != nil || string(data) != "1\n" {
				t.Errorf("not put back: %q, %v", data, err)
			}
			if r, err := s.Verify(context.Background()); err != nil || !r.OK() || r.Entries != 3 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	// A folder that only looks a little like state stays untouched.
	git := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(git, "objects", "ab"), 0o755), os.WriteFile(filepath.Join(git, "objects", "ab", strings.Repeat("0", 38)), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(git, Options{}); err == nil {
		t.Error("a folder of somebody else was taken for state")
	}
}

// TestStateRemovedDuringARun: what a run has measured is there when it ends, and
// the folder is one that the next run opens.
func TestStateRemovedDuringARun(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"everything":  os.RemoveAll,
		"the journal": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "journal")) },
		"moved away":  func(dir string) error { return os.Rename(dir, dir+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s := open(t, dir, Options{})
			j := journal(t, s)
			appendOK(t, j, entry("a", Measured, "1"), entry("b", Failed, "no"))
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			appendOK(t, j, entry("c", Measured, "3"))
			appendOK(t, j, entry("d", Measured, "4"))
			if e, ok, err := j.Lookup("a"); err != nil || !ok || string(e.Payload) != "1" {
				t.Errorf("%+v, %v, %v", e, ok, err)
			}
			if err := s.WriteStage(&StageRecord{Address: "collect.x", Kind: "collect"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, Options{})
			if got := contents(t, journal(t, again)); !slices.Equal(got, []string{"a m 1", "b f no", "c m 3", "d m 4"}) {
				t.Errorf("journal %q", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "format")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGCLeavesWhatGrows: gc next to a writer that the run lock did not keep away
// loses nothing, whether the file system has locks or not.
func TestGCLeavesWhatGrows(t *testing.T) {
	t.Run("locks", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		filled(t, dir)
		writer := open(t, dir, Options{})
		j := journal(t, writer)
		appendOK(t, j, entry("x", Measured, "1"))
		rep, err := open(t, dir, Options{}).GC(context.Background(), GCOptions{})
		if err != nil || len(rep.Compacted) != 0 {
			t.Errorf("a journal that is appended to was rewritten: %+v, %v", rep, err)
		}
		appendOK(t, j, entry("y", Measured, "2"))
		wantEntries(t, dir, 5)
	})
	t.Run("no locks", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		filled(t, dir)
		writer := open(t, dir, Options{files: lockless{}})
		j := journal(t, writer)
		appendOK(t, j, entry("x", Measured, "1"))
		beforeRemove = func(string) { appendOK(t, j, entry("y", Measured, "2")) }
		defer func() { beforeRemove = nil }()
		rep, err := open(t, dir, Options{}).GC(context.Background(), GCOptions{})
		if err != nil || len(rep.Compacted) != 1 {
			t.Fatalf("%+v, %v", rep, err)
		}
		beforeRemove = nil
		wantEntries(t, dir, 5) // the writer may never write again
		appendOK(t, j, entry("z", Measured, "3"))
		wantEntries(t, dir, 6)
	})
}

// lockless is a file system without locks.
type lockless struct{ osFiles }

func (lockless) Create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	return osFile{f}, err
}

func wantEntries(t *testing.T, dir string, n int) {
	t.Helper()
	r, err := open(t, dir, Options{ReadOnly: true}).Verify(context.Background())
	if err != nil || r.Entries != n {
		t.Errorf("%d entries, want %d; %v", r.Entries, n, err)
	}
}

// TestDamagedHead: no case is lost, and gc mends it.
func TestDamagedHead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	j := journal(t, s)
	appendOK(t, j, entry("a", Measured, "1"))
	path := onlySegment(t, j)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[3] ^= 0x40
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	r, err := s.Verify(context.Background())
	if err != nil || !r.OK() || len(r.Problems) != 1 || r.Entries != 1 || !strings.Contains(r.Problems[0].Detail, "no case") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.GC(context.Background(), GCOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Verify(context.Background()); err != nil || len(r.Problems) != 0 || r.Entries != 1 {
		t.Errorf("after gc: %+v, %v", r, err)
	}
}

// TestDamagedContext: the next use of the journal writes its description anew.
func TestDamagedContext(t *testing.T) {
	for _, how := range []string{"removed", "noise", "a folder"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s := open(t, dir, Options{})
			j := journal(t, s)
			appendOK(t, j, entry("a", Measured, "1"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(j.dir, "context.json")
			err := os.Remove(path)
			switch how {
			case "noise":
				err = os.WriteFile(path, []byte("\x00\x01"), 0o644)
			case "a folder":
				err = errors.Join(err, os.Mkdir(path, 0o755))
			}
			if err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, Options{})
			if r, err := s.Verify(context.Background()); err != nil || !r.OK() || len(r.Problems) != 1 {
				t.Errorf("before: %+v, %v", r, err)
			}
			if _, err := s.List(); err != nil {
				t.Errorf("list: %v", err)
			}
			journal(t, s)
			if _, err := s.GC(context.Background(), GCOptions{}); err != nil { // a folder was put aside
				t.Error(err)
			}
			if r, err := s.Verify(context.Background()); err != nil || len(r.Problems) != 0 {
				t.Errorf("after: %+v, %v", r, err)
			}
		})
	}
}

// TestEntriesThatAreNoCases: a frame with a right sum and wrong contents costs its
// case and nothing else; gc removes it.
func TestEntriesThatAreNoCases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	opts := Options{Valid: func(e Entry) bool { return string(e.Payload) != "{}" }}
	s := open(t, dir, opts)
	j := journal(t, s)
	appendOK(t, j, entry("a", Measured, "1"), entry("b", Measured, "{}"), entry("c", Measured, "3"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, opts)
	if got := contents(t, journal(t, s)); !slices.Equal(got, []string{"a m 1", "c m 3"}) {
		t.Errorf("%q", got)
	}
	if err := s.Forget(); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Verify(context.Background()); err != nil || r.OK() || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Detail, "holds no case") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.GC(context.Background(), GCOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Verify(context.Background()); err != nil || len(r.Problems) != 0 || r.Entries != 2 {
		t.Errorf("after gc: %+v, %v", r, err)
	}
}

// TestStrayFiles: files of others between ours harm no command.
func TestStrayFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	for _, name := range []string{".nfs0001", "journal/.DS_Store", "journal/gemm/.nfs0001", "journal/gemm/x", "stages/.DS_Store", "stages/x.txt", "objects/x", "objects/ab", "runs/x", "notes.txt"} {
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

// TestRecordsThatCannotBeUsed: a record with a right sum and wrong contents, and an
// object that is whole and no table, are damage to whoever reads them, and to
// verify before.
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
		"gate.a": {Outputs: Outputs{Table: table}}, "gate.b": {Info: []byte(`"x"`)}, "gate.c": {Outputs: Outputs{Table: table, Ledger: text}},
	} {
		r.Address = address
		if err := s.WriteStage(&r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Verify(context.Background())
	if err != nil || r.OK() || len(r.Problems) != 2 || !strings.Contains(r.Problems[0].Detail, "its info cannot be read") || !strings.Contains(r.Problems[1].Detail, "it is the ledger of gate.c, and no table") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.ReadStage("gate.b"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the record that cannot be used: %v", err)
	}
	if records, err := s.Stages(); err != nil || len(records) != 2 {
		t.Errorf("%v, %v", records, err)
	}
	if _, err := s.GetRecord(text); !errors.Is(err, ErrCorrupt) || s.HasObject(text) {
		t.Errorf("the object that is no table: %v, still there: %t", err, s.HasObject(text))
	}
	if err := s.RecordParts(text, nil); !errors.Is(err, ErrMissing) {
		t.Errorf("after it was put aside: %v", err)
	}
	if _, err := s.GetRecord(table); err != nil {
		t.Error(err)
	}
}

// TestKept: marks tell whether all of the journal that they speak of is there.
func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	appendOK(t, journal(t, s), entry("a", Measured, "1"), entry("b", Measured, "2"))
	marks := journal(t, s).Marks()
	if !journal(t, s).Kept(marks) || !journal(t, s).Kept(nil) || journal(t, s).Kept(map[string]int64{"x.seg": 9}) {
		t.Error("before")
	}
	appendOK(t, journal(t, s), entry("c", Measured, "3"))
	if !journal(t, s).Kept(marks) {
		t.Error("with more behind")
	}
	paths, err := segmentPaths(journal(t, s).dir)
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(segmentMagic)+frameHeader+1] ^= 1
	for name, data := range map[string][]byte{"damaged": flipped, "cut": whole[:len(segmentMagic)+frameHeader]} {
		if err := os.WriteFile(paths[0], data, 0o644); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, Options{})
		if journal(t, s).Kept(marks) {
			t.Error(name)
		}
	}
}
