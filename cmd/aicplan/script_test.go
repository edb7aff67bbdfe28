package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"aicplan/sink/filelock"
	"aicplan/stages/runtimes"
)

// TestMain lets the test binary stand in for aicplan: in scripts, in
// documents, and as the worker that aicplan starts.
func TestMain(m *testing.M) {
	// Runs of tests do not wait for those of users, nor for each other's.
	if os.Getenv(filelock.DeviceDirVariable) == "" {
		os.Setenv(filelock.DeviceDirVariable, filepath.Join(os.TempDir(), fmt.Sprintf("aicplan-test-locks-%d", os.Getpid())))
	}
	testscript.Main(m, map[string]func(){
		"aicplan": func() {
			kinds := runtimes.Kinds()
			if os.Getenv("AICPLAN_TEST_TOY") != "" {
				kinds = append(kinds, toyKind(toyChanges(os.Getenv("AICPLAN_TEST_TOY"))...))
			}
			os.Exit(mainWith(kinds, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs whole command lines; see testdata/script.
func TestScripts(t *testing.T) {
	root := repoRoot(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv(filelock.DeviceDirVariable, filepath.Join(e.WorkDir, ".locks"))
			e.Setenv("PYTHONDONTWRITEBYTECODE", "1")
			// Stand-ins of frameworks and a checkout that hosts them.
			standins := filepath.Join(root, "cudaops", "pyhost", "testdata")
			if err := os.CopyFS(filepath.Join(e.WorkDir, "standins"), os.DirFS(standins)); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(e.WorkDir, "plans"), os.DirFS(filepath.Join(root, "plans")))
		},
	})
}
