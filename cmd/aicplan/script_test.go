package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"aicplan/cudaops/pyhost/pyhosttest"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/testutil"
	"aicplan/stages/runtimes"
)

// TestMain makes the test binary usable as aicplan, in scripts, in documents, and as the worker that
// aicplan starts.
func TestMain(m *testing.M) {
	// Test runs do not wait for runs of users or of each other.
	locks := ""
	if os.Getenv(fileutil.DeviceDirVariable) == "" {
		locks = filepath.Join(os.TempDir(), fmt.Sprintf("aicplan-test-locks-%d", os.Getpid()))
		os.Setenv(fileutil.DeviceDirVariable, locks)
	}
	commands := map[string]func(){}
	for _, name := range slurmCommands {
		commands[name] = func() { os.Exit(slurmMain(name, os.Args[1:], os.Stdout, os.Stderr)) }
	}
	maps.Copy(commands, map[string]func(){
		"forge": forge,
		"aicplan": func() {
			tuneCollector()
			kinds := runtimes.Kinds()
			if os.Getenv("AICPLAN_TEST_TOY") != "" {
				version, _ := strconv.Atoi(os.Getenv("AICPLAN_TEST_TOY"))
				kinds = append(kinds, toyKind(version))
			}
			os.Exit(mainWith(kinds, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
	testscript.Main(tidyM{m, locks}, commands)
}

// tidyM runs the tests and then removes a folder; "" removes nothing.
type tidyM struct {
	*testing.M
	folder string
}

func (m tidyM) Run() int {
	code := pyhosttest.Run(m.M)
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
		Condition:     scriptCondition,
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "1")
			e.Setenv(fileutil.DeviceDirVariable, filepath.Join(e.WorkDir, ".locks"))
			e.Setenv("PYTHONDONTWRITEBYTECODE", "1")
			e.Setenv("GOGC", "400") // the heap is not worth collecting before commands end
			withPython(t, e)
			e.Setenv("REPO", root)
			// The plans, the fake frameworks with a checkout, and a trace are many files. A script gets
			// only those that its text names.
			text, err := os.ReadFile(filepath.Join("testdata/script",
				strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")+".txt"))
			if err != nil {
				return err
			}
			for name, from := range map[string]string{
				"plans":         filepath.Join(root, "plans"),
				"standins":      filepath.Join(root, "cudaops", "pyhost", "testdata"),
				"trace.json.gz": filepath.Join(root, "cudaops", "trace", "testdata", "b200__eager_trace.json.gz"),
			} {
				if bytes.Contains(text, []byte(name)) {
					if err := copyTree(filepath.Join(e.WorkDir, name), from); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
}

// scriptCondition implements the condition [all]: whether all tests run, and not only those of make
// test.
func scriptCondition(name string) (bool, error) {
	switch name {
	case "all":
		return testutil.All(), nil
	case "root":
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("no condition %q", name)
}

// copyTree copies a file or a folder.
func copyTree(to, from string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, syscall.EISDIR) {
		return os.CopyFS(to, os.DirFS(from))
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// withPython adds an interpreter that starts quickly to PATH. Scripts that need one are skipped without
// it.
func withPython(t *testing.T, e *testscript.Env) {
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv(pyhosttest.Variable) == "" {
		return
	}
	bin := filepath.Dir(pyhosttest.Python(t, filepath.Join(e.WorkDir, ".python")))
	e.Setenv(pyhosttest.Cache, os.Getenv(pyhosttest.Cache))
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
}
