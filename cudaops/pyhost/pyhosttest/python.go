// Package pyhosttest gives tests a Python interpreter that starts quickly.
package pyhosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"aicplan/cudaops/pyhost"
	"aicplan/sink/base/testutil"
)

// Variable names the interpreter of tests. It is used as it is, with the
// packages that are installed for it.
const Variable = "AICPLAN_TEST_PYTHON"

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
		cmd := exec.Command(python, "-c",
			"import sys; sys.path.append(sys.argv[1]); from aicplan_host import child, compiled, loop; compiled.keep()",
			host)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=")
		if out, err := cmd.CombinedOutput(); err != nil {
			tb.Fatalf("%v\n%s", err, out)
		}
	})
}

// Python returns an interpreter for tests and skips the test if there is none: that of the variable
// AICPLAN_TEST_PYTHON; else python3 if torch is installed for it; else testutil.Python in dir.
func Python(tb testing.TB, dir string) string {
	tb.Helper()

	path := os.Getenv(Variable)
	if path != "" {
		var err error
		if path, err = exec.LookPath(path); err != nil {
			tb.Fatalf("%s: %v", Variable, err)
		}
	} else if path = testutil.Python(tb, dir); torch() {
		path, _ = testutil.MachinePython() // it was found
	}
	fill(tb, path)
	return path
}

// torch reports whether torch is installed for the machine's python3.
var torch = sync.OnceValue(func() bool {
	program, err := testutil.MachinePython()
	check := "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
	return err == nil && exec.Command(program, "-c", check).Run() == nil
})
