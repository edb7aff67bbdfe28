package testutil

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// MachinePython returns the path of the machine's python3 without wrappers that choose a version. If there is none,
// the error wraps exec.ErrNotFound.
var MachinePython = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		return "", fmt.Errorf("python3 does not run: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// QuickPython makes dir a virtual environment without packages and returns the path of its python3. Start-up files of
// installed packages take most of the time that an interpreter needs to start.
func QuickPython(dir string) (string, error) {
	program, err := MachinePython()
	if err != nil {
		return "", err
	}

	path := filepath.Join(dir, "bin", "python3")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	cfg := "home = " + filepath.Dir(program) + "\ninclude-system-site-packages = false\n"
	if err := os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), []byte(cfg), 0o644); err != nil {
		return "", err
	}
	if err := os.Symlink(program, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return path, nil
}

// Python returns the path of QuickPython in dir. It skips the test if python3 is not installed.
func Python(tb testing.TB, dir string) string {
	tb.Helper()

	path, err := QuickPython(dir)
	if errors.Is(err, exec.ErrNotFound) {
		tb.Skip("python3 is not installed")
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
