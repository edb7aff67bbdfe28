package export

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"aicplan/sink/filelock"
	"aicplan/sink/tree"
)

// TestMergeHeedsWritersThatLocksDoNotReach: another machine replaces the file
// between reading and writing, and again just after. Its rows stay.
func TestMergeHeedsWritersThatLocksDoNotReach(t *testing.T) {
	for _, name := range []string{"before", "after"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := func() *Config { return config(func(c *Config) { c.Layout = string(tree.Systems) }) }
			mustRun(t, c(), dir, gemm([]int{0}))
			// What the other machine writes: it read the file before we did.
			other := t.TempDir()
			out := mustRun(t, c(), other, gemm([]int{0, 5}))
			theirs := read(t, out.Artifacts[0].Path)
			times := 0
			swap := func(path string) {
				if times++; times == 1 {
					if err := os.WriteFile(path, []byte(theirs), 0o644); err != nil {
						t.Error(err)
					}
				}
			}
			if name == "before" {
				beforeReplace = swap
				defer func() { beforeReplace = func(string) {} }()
			} else {
				afterReplace = swap
				defer func() { afterReplace = func(string) {} }()
			}
			ours := mustRun(t, c(), dir, gemm([]int{0, 7}))
			if got := read(t, ours.Artifacts[0].Path); strings.Count(got, "\n") != 4 || ours.Artifacts[0].Rows != 3 {
				t.Errorf("want the header and the rows m = 1, 6 and 8; %d rows said:\n%s", ours.Artifacts[0].Rows, got)
			}
		})
	}
}

// TestMergeOfProcesses: processes that merge into one table at the same time
// lose nothing of each other. It failed before folders were locked beyond the
// process.
func TestMergeOfProcesses(t *testing.T) {
	const rounds = 3
	if at := os.Getenv("AICPLAN_TEST_MERGE"); at != "" {
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		c := config(func(c *Config) { c.Layout = string(tree.Families) })
		for i := range rounds {
			mustRun(t, c, os.Getenv("AICPLAN_TEST_DIR"), gemm([]int{100*n + i}))
		}
		return
	}
	dir := t.TempDir()
	const writers = 4
	var cmds []*exec.Cmd
	for i := range writers {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestMergeOfProcesses$")
		cmd.Env = append(os.Environ(), "AICPLAN_TEST_MERGE="+strconv.Itoa(i), "AICPLAN_TEST_DIR="+dir)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*", "*.parquet"))
	if more, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*", "*", "*.parquet")); err == nil {
		found = append(found, more...)
	}
	if len(found) != 1 {
		t.Fatalf("files %v, %v", found, err)
	}
	rec, err := tree.ReadFile(found[0])
	if err != nil || rec.NumRows() != rounds*writers {
		t.Errorf("%d rows of %d, %v", rec.NumRows(), rounds*writers, err)
	}
	meta := read(t, filepath.Dir(found[0]), tree.MetaFile)
	if !strings.Contains(meta, "rows: "+strconv.Itoa(rounds*writers)) {
		t.Errorf("the sidecar:\n%s", meta)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(found[0]), filelock.FolderMark)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark was left: %v", err)
	}
}
