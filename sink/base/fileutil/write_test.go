package fileutil

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWriteReplacesWhollyOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gemm_perf.txt")
	digest, err := WriteFile(path, []byte("first"))
	if err != nil || digest != Digest([]byte("first")) {
		t.Fatalf("%q, %v", digest, err)
	}
	boom := errors.New("boom")
	if _, err := Write(path, func(w io.Writer) error {
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
		return boom
	}); err != boom {
		t.Errorf("the error of fill was not returned: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "first" {
		t.Errorf("a failed write changed the file: %.20q, %v", data, err)
	}
	if digest, err = Write(path, func(w io.Writer) error {
		_,
			err := io.WriteString(w, "second")
		return err
	}); err != nil || digest != Digest([]byte("second")) {
		t.Errorf("%q, %v", digest, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files were left behind: %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "none", "x"), "create the folder first: no such file or directory"},
		{filepath.Join(file, "x"), "a part of the path is a file, not a folder: not a directory"},
	} {
		_, err := WriteFile(tc.path, nil)
		if want := "cannot write " + tc.path + ": " + tc.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %v", err, want)
		}
	}
	err := Explain("write", "/data/x", &os.PathError{Op: "write", Path: "/data/x", Err: syscall.ENOSPC})
	if want := "cannot write /data/x: free some space there and run the same command again: no space left on device"; err.Error() != want {
		t.Errorf("got %v", err)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error("the cause is lost")
	}
	var pe *os.PathError
	if !errors.As(err, &pe) {
		t.Error("the path error is lost")
	}
}

// TestDiskThatFillsUp: the disk is full before all is written, in the hands of
// somebody else's encoder. The file is named, not the temporary one, and what helps.
func TestDiskThatFillsUp(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	_, err = fmt.Fprint(&hashWriter{w: full, path: "out/r.html", h: sha256.New()}, "some text")
	if err = fmt.Errorf("template: %w", err); err.Error() != "template: cannot write out/r.html: free some space there "+
		"and run the same command again: no space left on device" {
		t.Errorf("got %v", err)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error("the cause is lost")
	}
}

func TestWithin(t *testing.T) {
	base := t.TempDir()
	out := filepath.Join(base, "out")
	outside := filepath.Join(base, "outside")
	for _, d := range []string{out, outside, filepath.Join(out, "real"), base + "/outer"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"in": "real", "away": outside, "up": "..", "dangling": "nowhere",
		"sibling": base + "/outer", "chain": "away"} {
		if err := os.Symlink(target, filepath.Join(out, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gemm_perf.txt", "a/b/c.parquet", "./x", "..x/y", "a..b", "in/x", "real/new/x"} {
		if got, err := Within(out, name); err != nil || got != filepath.Join(out, name) {
			t.Errorf("Within(%q) = %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"":           "is empty",
		".":          "names the folder itself",
		"a/":         "names a folder",
		"/etc/x":     "is absolute",
		`\\host\x`:   "is absolute",
		"../x":       `climbs with ".."`,
		"a/../../x":  `climbs with ".."`,
		"a/../x":     `climbs with ".."`,
		"..":         `climbs with ".."`,
		"away/x":     "passes through a symbolic link to " + outside,
		"chain/x":    "passes through a symbolic link to " + outside,
		"up/x":       "passes through a symbolic link to ",
		"sibling/x":  "passes through a symbolic link to ",
		"dangling":   "broken symbolic link",
		"a\x00b":     "NUL byte",
		"dangling/x": "broken symbolic link",
	} {
		got, err := Within(out, name)
		if err == nil || !strings.HasPrefix(err.Error(), "path leaves the output folder: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Within(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	if got, err := Within(filepath.Join(base, "later"), "x/y"); err != nil ||
		got != filepath.Join(base, "later", "x", "y") {
		t.Errorf("a folder that does not exist yet: %q, %v", got, err)
	}
	if _, err := Within(filepath.Join(base, "later"), "../y"); err == nil ||
		!strings.HasPrefix(err.Error(), "path leaves the output folder: ") {
		t.Errorf("a folder that does not exist yet: %v", err)
	}
}

// TestExplainReading: advice about writing would mislead where something was
// only looked for.
func TestExplainReading(t *testing.T) {
	err := Explain("read", "/data/x", &os.PathError{Op: "open", Path: "/data/x", Err: syscall.ENOENT})
	if got := err.Error(); got != "cannot read /data/x: no such file or directory" {
		t.Error(got)
	}
	err = Explain("write", "/data/x", &os.PathError{Op: "open", Path: "/data/x", Err: syscall.ENOENT})
	if !strings.Contains(err.Error(), "create the folder first") {
		t.Error(err)
	}
}
