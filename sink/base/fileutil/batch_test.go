package fileutil

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			out[e.Name()] = "a folder"
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("files %v, want %v", got, want)
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s holds %q, want %q", name, got[name], text)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b Batch
	digest, err := b.Stage(old, Bytes([]byte("after")))
	if err != nil || digest != Digest([]byte("after")) {
		t.Fatal(digest, err)
	}
	if _, err := b.Stage(filepath.Join(dir, "new"), Bytes([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir)["old"]; got != "before" {
		t.Errorf("staging changed the file to %q", got)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	same(t, contents(t, dir), map[string]string{"old": "after", "new": "new"})
}

// A file that cannot be written leaves the others as they were.
func TestBatchIsAllOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := map[string]string{"old": "before"}
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}

	var b Batch
	if _, err := b.Stage(filepath.Join(dir, "old"), Bytes([]byte("after"))); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if _, err := b.Stage(filepath.Join(dir, "new"), func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	b.Discard()
	same(t, contents(t, dir), before)
}
