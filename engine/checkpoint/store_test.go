package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// open opens a store that is closed at the end of the test. Except in benchmarks, its syncs do nothing:
// durability is covered by the tests that kill processes and count syncs.
func open(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	if _, bench := t.(*testing.B); !bench && opts.files == nil {
		opts.files = newFaultyFiles()
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.pause = func() {}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "state"), Options{})
}

func TestOpenCreatesNothingUntilItIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	s := open(t, dir, Options{})
	if _, err := s.GetBytes(Digest(nil)); !errors.Is(err, ErrMissing) {
		t.Errorf("GetBytes: %v", err)
	}
	j, err := s.Journal(Context{Op: "gemm"})
	if err != nil || j.Len() != 0 {
		t.Fatalf("Journal: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the folder exists before the first write: %v", err)
	}
	if err := j.Append(Entry{ID: "c1", Kind: Measured, Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "format")); err != nil || string(data) != "2\n" {
		t.Errorf("format: %q, %v", data, err)
	}
}

func TestReadOnlyStoreRefusesEveryChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{ReadOnly: true})
	j, err := s.Journal(Context{Op: "gemm"})
	if err != nil {
		t.Fatal(err)
	}
	_, putErr := s.PutBytes([]byte("x"))
	_, runErr := s.NewRun()
	_, lockErr := s.Lock(LockInfo{})
	for what, err := range map[string]error{
		"PutBytes": putErr, "NewRun": runErr, "Lock": lockErr,
		"Append":     j.Append(Entry{ID: "a", Kind: Failed}),
		"WriteStage": s.WriteStage(&StageRecord{Address: "a.b"}),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestOpenRefusesWhatItMustNotTouch(t *testing.T) {
	write := func(name, text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	lost := t.TempDir()
	if err := os.Mkdir(filepath.Join(lost, "journal"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, dir, want string }{
		{"another format", write("format", "7\n"), `has format "7", this aicplan reads and writes format 2`},
		{"damaged", write("format", "x"), `contains "x": write 2 into it`},
		{"lost", lost, `contains "": write 2 into it`},
		{"other files", write("notes.txt", ""), `it contains "notes.txt" and no file named format`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Open(tc.dir, Options{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	var fe *FormatError
	if _, err := Open(write("format", "7"), Options{}); !errors.As(err, &fe) || fe.Found != "7" {
		t.Errorf("no FormatError: %v", err)
	}
	if _, err := Open(write(".gitignore", "*"), Options{}); err != nil {
		t.Errorf("a folder with dot files only: %v", err)
	}
}
