// Package pyhosttest gives tests a Python interpreter that starts quickly.
package pyhosttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aicplan/cudaops/pyhost"
)

// Variable names the interpreter of tests. It is used as it is, with the
// packages that are installed for it.
const Variable = "AICPLAN_TEST_PYTHON"

// found is what the machine's python3 says of itself.
type found struct {
	program string // without wrappers that choose a version
	torch   bool
	err     error
}

var machine = sync.OnceValue(func() found {
	out, err := exec.Command("python3", "-c", `import importlib.util, os, sys
print(os.path.realpath(sys.executable), importlib.util.find_spec("torch") is not None, sep="\n")`).Output()
	if err != nil {
		return found{err: err}
	}
	program, torch, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return found{program: program, torch: torch == "True"}
})

// Cache is the variable by which workers find the host's compiled code.
const Cache = "AICPLAN_HOST_CODE"

// Run runs the tests of a package that starts many workers, each from a folder of
// its own: they share the compiled code of the host, which is removed at the end.
func Run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aicplan-test-python-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cacheOfTests = dir
	os.Setenv(Cache, dir)
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

var cacheOfTests string

var filled sync.Once

// fill compiles the host into the cache, because tests keep Python from writing
// bytecode. All of a process's tests have the same interpreter.
func fill(tb testing.TB, python string) {
	tb.Helper()
	if cacheOfTests == "" {
		return
	}
	filled.Do(func() {
		host, err := pyhost.Write(filepath.Join(cacheOfTests, "host"))
		if err != nil {
			tb.Fatal(err)
		}
		cmd := exec.Command(
			python,
			"-c",
			"import sys; sys.path.append(sys.argv[1]); from aicplan_host import child, compiled, loop; compiled.keep()",
			host,
		)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=")
		if out, err := cmd.CombinedOutput(); err != nil {
			tb.Fatalf("%v\n%s", err, out)
		}
	})
}

// Python returns an interpreter for tests and skips the test where there is
// none: that of the variable AICPLAN_TEST_PYTHON; else python3 where torch is
// installed for it; else python3 as a virtual environment in dir that has no
// packages at all. Start-up files of installed packages then cost nothing, which
// is most of the time that an interpreter takes to start.
func Python(tb testing.TB, dir string) string {
	tb.Helper()
	if name := os.Getenv(Variable); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			tb.Fatalf("%s: %v", Variable, err)
		}
		fill(tb, path)
		return path
	}
	m := machine()
	if errors.Is(m.err, exec.ErrNotFound) {
		tb.Skip("no python3 on this machine")
	}
	if m.err != nil {
		tb.Fatalf("python3 does not run: %v", m.err)
	}
	fill(tb, m.program)
	if m.torch {
		return m.program
	}
	bin := filepath.Join(dir, "bin")
	path := filepath.Join(bin, "python3")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		tb.Fatal(err)
	}
	cfg := "home = " + filepath.Dir(m.program) + "\ninclude-system-site-packages = false\n"
	if err := os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), []byte(cfg), 0o644); err != nil {
		tb.Fatal(err)
	}
	if err := os.Symlink(m.program, path); err != nil && !errors.Is(err, os.ErrExist) {
		tb.Fatal(err)
	}
	return path
}
