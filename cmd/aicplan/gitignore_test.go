package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingGeneratedIsTracked keeps what builds, runs and tests leave in the
// work tree out of the repository.
func TestNothingGeneratedIsTracked(t *testing.T) {
	t.Parallel()
	root := repoRoot(t)
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if top, err := git("rev-parse", "--show-toplevel"); err != nil || !sameFolder(top, root) {
		t.Skip("the sources are not in a git repository of their own")
	}
	tracked, err := git("ls-files", "--cached", "--ignored", "--exclude-standard")
	if err != nil || tracked != "" {
		t.Errorf("tracked although ignored: %v\n%s", err, tracked)
	}
	for _, path := range []string{
		"bin/aicplan", "aicplan", ".aicplan/format", "plans/.aicplan/format", "out/gemm_perf.txt", "plans/out/report.html",
		"collect.test", "cpu.prof", "cudaops/pyhost/__pycache__/host.cpython-312.pyc", "cudaops/pyhost/testdata/checkout/collector/helper.pyc",
	} {
		if got, err := git("check-ignore", "--no-index", path); err != nil || got != path {
			t.Errorf("%s would be committed: %v", path, err)
		}
	}
	for _, path := range []string{"cmd/aicplan/main.go", "cudaops/pyhost/testdata/checkout/collector/helper.py", "plans/quickstart.hcl"} {
		if got, err := git("check-ignore", "--no-index", path); err == nil {
			t.Errorf("%s is ignored", got)
		}
	}
}

func sameFolder(a, b string) bool {
	x, err := filepath.EvalSymlinks(a)
	if err != nil {
		return false
	}
	y, err := filepath.EvalSymlinks(b)
	return err == nil && x == y
}
