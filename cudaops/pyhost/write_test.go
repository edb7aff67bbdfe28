package pyhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
)

// TestWriteAvoidsFoldersOfOtherUsers checks that the host is never started from a folder in
// which another user could replace it after the check.
func TestWriteAvoidsFoldersOfOtherUsers(t *testing.T) {
	for name, change := range map[string]func(state string) error{
		"world-writable hosts": func(state string) error { return os.Chmod(filepath.Join(state, "hosts"), 0o777) },
		"world-writable state": func(state string) error { return os.Chmod(state, 0o777) },
		"a link":               func(state string) error { return replaceByLink(filepath.Join(state, "hosts")) },
		"foreign hosts":        func(state string) error { return os.Chown(filepath.Join(state, "hosts"), 65534, 65534) },
		"foreign state":        func(state string) error { return os.Chown(state, 65534, 65534) },
	} {
		t.Run(name, func(t *testing.T) {
			tmp, state := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", tmp)
			hosts := filepath.Join(state, "hosts")
			if err := os.Mkdir(hosts, 0o755); err != nil {
				t.Fatal(err)
			}
			path, err := pyhost.Write(hosts)
			if err != nil || filepath.Dir(path) != hosts {
				t.Fatalf("a private folder: %s, %v", path, err)
			}

			if err := change(state); err != nil {
				t.Skip("only root can give a folder to another user")
			}
			path, err = pyhost.Write(hosts)
			if err != nil || !strings.HasPrefix(path, tmp) {
				t.Errorf("the host is %s, %v", path, err)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("its folder: %v, %v", info.Mode(), err)
			}
		})
	}
}

func replaceByLink(dir string) error {
	if err := os.Rename(dir, dir+"2"); err != nil {
		return err
	}
	return os.Symlink(dir+"2", dir)
}
