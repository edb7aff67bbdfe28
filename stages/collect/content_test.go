package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Content is found through links at any depth of a folder.
func TestContentBehindLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		t.Helper()
		path = filepath.Join(dir, path)
		_ = os.Remove(path)
		if err := os.Symlink(to, path); err != nil {
			t.Skip(err)
		}
	}
	of := func() string {
		t.Helper()
		id, err := contentOf(t.Context(), []string{filepath.Join(dir, "tree")})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	write("tree/v1/a.csv", "1")
	write("elsewhere/v2/a.csv", "2")
	plain := of()
	link("v1", "tree/newest")
	old := of()
	if old == plain {
		t.Error("a link to a folder has no content")
	}
	link("../elsewhere/v2", "tree/newest")
	other := of()
	if other == old {
		t.Error("a link that leads to another folder has the same content")
	}
	write("elsewhere/v2/a.csv", "3")
	changed := of()
	if changed == other {
		t.Error("a file behind a link changed, and the content did not")
	}
	// Folders that contain links to themselves or to all other folders must not be walked forever.
	link("..", "tree/v1/up")
	link(".", "tree/self")
	for i := range 20 {
		for j := range 20 {
			write(fmt.Sprintf("tree/web/%d/a", i), "x")
			link(fmt.Sprintf("../%d", j), fmt.Sprintf("tree/web/%d/to%d", i, j))
		}
	}
	last := of()
	write("tree/web/7/a", "y")
	if of() == last {
		t.Error("a file in a folder with links to it changed, and the content did not")
	}
}

// A file is read again after it was replaced.
func TestContentOfChangedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.csv")
	long := time.Now().Add(-time.Hour)
	of := func(text string, at time.Time) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		id, err := contentOf(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := of("one", long)
	if of("two", long.Add(time.Nanosecond)) == first || of("four", long) == first {
		t.Error("another content is taken for the first one")
	}
	// A file that was just written may get the same time again with other content.
	now := time.Now()
	if of("six", now) == of("ten", now) {
		t.Error("a file that changed within its clock's tick is taken for the first one")
	}
	if of("one", now) != first {
		t.Error("the same content at another time is another one")
	}
}

// Reading folders stops when the context is cancelled.
func TestContentIsStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := contentOf(ctx, []string{t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
