package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"aicplan/cudaops/pyhost/pyhosttest"
	"aicplan/sink/filelock"
	"aicplan/stages/executors/slurmtest"
	"aicplan/stages/runtimes"
)

// TestMain lets the test binary stand in for aicplan: in scripts, in
// documents, and as the worker that aicplan starts.
func TestMain(m *testing.M) {
	// Runs of tests do not wait for those of users, nor for each other's.
	locks := ""
	if os.Getenv(filelock.DeviceDirVariable) == "" {
		locks = filepath.Join(os.TempDir(), fmt.Sprintf("aicplan-test-locks-%d", os.Getpid()))
		os.Setenv(filelock.DeviceDirVariable, locks)
	}
	commands := map[string]func(){}
	for _, name := range slurmtest.Commands {
		commands[name] = func() { os.Exit(slurmtest.Main(name, os.Args[1:], os.Stdout, os.Stderr)) }
	}
	maps.Copy(commands, map[string]func(){
		"forge": forge,
		"aicplan": func() {
			kinds := runtimes.Kinds()
			if os.Getenv("AICPLAN_TEST_TOY") != "" {
				kinds = append(kinds, toyKind(toyChanges(os.Getenv("AICPLAN_TEST_TOY"))...))
			}
			os.Exit(mainWith(kinds, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
	testscript.Main(tidyM{m, locks}, commands)
}

// tidyM removes a folder when the tests have run; "" removes nothing.
type tidyM struct {
	*testing.M
	folder string
}

func (m tidyM) Run() int {
	code := m.M.Run()
	if m.folder == "" {
		return code
	}
	if err := os.RemoveAll(m.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// TestScripts runs whole command lines; see testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	root := repoRoot(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv(filelock.DeviceDirVariable, filepath.Join(e.WorkDir, ".locks"))
			e.Setenv("PYTHONDONTWRITEBYTECODE", "1")
			withPython(t, e)
			e.Setenv("REPO", root)
			// Stand-ins of frameworks and a checkout that hosts them.
			standins := filepath.Join(root, "cudaops", "pyhost", "testdata")
			if err := os.CopyFS(filepath.Join(e.WorkDir, "standins"), os.DirFS(standins)); err != nil {
				return err
			}
			trace, err := os.ReadFile(filepath.Join(root, "cudaops", "trace", "testdata", "b200__eager_trace.json.gz"))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "trace.json.gz"), trace, 0o644); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(e.WorkDir, "plans"), os.DirFS(filepath.Join(root, "plans")))
		},
	})
}

// withPython puts an interpreter that starts quickly in front of others. Scripts
// that need one skip without.
func withPython(t *testing.T, e *testscript.Env) {
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv(pyhosttest.Variable) == "" {
		return
	}
	bin := filepath.Dir(pyhosttest.Python(t, filepath.Join(e.WorkDir, ".python")))
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
}
