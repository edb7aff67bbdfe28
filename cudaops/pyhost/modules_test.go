package pyhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
)

// TestModulesOnTheirOwn runs the Python modules' unit tests.
func TestModulesOnTheirOwn(t *testing.T) {
	t.Parallel()
	// go test keeps results for as long as the files that the test itself opens are
	// the same.
	files, err := filepath.Glob("host/*/*.py")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python(t), "-B", "-W", "error", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	cmd.Dir = "host"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "OK") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestModulesAreClean lints the modules where ruff is installed.
func TestModulesAreClean(t *testing.T) {
	t.Parallel()
	ruff, err := exec.LookPath("ruff")
	if err != nil {
		t.Skip("no ruff on this machine (pip install ruff)")
	}
	if out, err := exec.Command(ruff, "check", "--no-cache", "--config", "ruff.toml",
		"host").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTheWorkerIsOneFile starts the worker from a copy of its one file in a
// folder that holds nothing else, without site packages.
func TestTheWorkerIsOneFile(t *testing.T) {
	t.Parallel()
	path, err := pyhost.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "renamed")
	if err := os.WriteFile(alone, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runPlain(python(t), "-I", "-S", alone)
	if err == nil || !strings.Contains(out, "descriptors 3 and 4 are not open") {
		t.Errorf("%v\n%s", err, out)
	}
}
