package fileutil

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWriteNamedReplacesRegularFilesAlone: as root a device became a file before.
func TestWriteNamedReplacesRegularFilesAlone(t *testing.T) {
	dir := t.TempDir()
	fill := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	at := func(name string) string { return filepath.Join(dir, name) }
	same := func(name string, mode os.FileMode) {
		t.Helper()
		info, err := os.Lstat(at(name))
		if err != nil || info.Mode().Type() != mode {
			t.Errorf("%s is now %v, %v", name, info.Mode(), err)
		}
	}
	if err := WriteNamed(at("none"), fill); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(at("target"), []byte("older and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(at("target"))
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "target", "dangling": "made", "null": "/dev/null"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
		if err := WriteNamed(at(link), fill); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		same(link, os.ModeSymlink)
	}
	after, err := os.Stat(at("target"))
	if err != nil || !os.SameFile(before, after) || after.Mode().Perm() != 0o600 {
		t.Errorf("the target of a link was replaced: %v, %v", after, err)
	}
	for _, name := range []string{"none", "target", "made"} {
		if data, err := os.ReadFile(at(name)); err != nil || string(data) != "new" {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("/dev/null is %v, %v", info.Mode(), err)
	}
	if err := WriteNamed("/dev/full", fill); err == nil {
		t.Error("a full device took it")
	}

	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	readerTimeout = 0
	if err := WriteNamed(at("fifo"), fill); err == nil {
		t.Error("a pipe that nobody reads took it")
	}
	same("fifo", os.ModeNamedPipe)
	r, err := os.OpenFile(at("fifo"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := WriteNamed(at("fifo"), fill); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	same("fifo", os.ModeNamedPipe)
}
