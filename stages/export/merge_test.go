package export

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// TestMergeKeepsRowsThatTheDataCannotName: the rows of the file differ by an optional
// column of the key that the new data lacks. None of them may be replaced.
func TestMergeKeepsRowsThatTheDataCannotName(t *testing.T) {
	t.Parallel()
	allreduce := func(columns ...string) *stage.Dataset {
		n := max(1, len(columns))
		names := []string{"allreduce_dtype", "num_gpus", "message_size", "kernel_source", "latency"}

		arrays := []arrow.Array{
			table.Constant("half", n), table.Constant(int64(8), n), table.Constant(int64(1024), n),
			table.Constant("own", n), table.Constant(0.01, n),
		}
		if len(columns) > 0 {
			names, arrays = append(names, "backend"), append(arrays, table.Texts(columns, nil))
		}
		return &stage.Dataset{Table: table.NewRecord(names, arrays),
			Info: stage.Info{Op: "custom_allreduce", Perf: "custom_allreduce_perf",
				Params: []string{"allreduce_dtype", "num_gpus", "message_size"}, Framework: "VLLM", Version: "0.14.0",
				Device: "NVIDIA H200", System: "h200_sxm"}}
	}

	c := func() *Config { return config(func(c *Config) { c.Layout = tree.Systems }) }
	dir := t.TempDir()
	out := mustRun(t, c(), dir, allreduce("vllm", "quick"))
	before := read(t, out.Artifacts[0].Path)

	if _, err := run(t, c(), dir, allreduce()); err == nil ||
		!strings.Contains(err.Error(), `the file there has the key column "backend" and the new data does not`) {
		t.Errorf("merged: %v", err)
	}

	if now := read(t, out.Artifacts[0].Path); now != before {
		t.Errorf("the file was\n%s\nand is\n%s", before, now)
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

		c := config(func(c *Config) { c.Layout = tree.Families })
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

	if _, err := os.Stat(filepath.Join(filepath.Dir(found[0]), fileutil.FolderLock)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark was left: %v", err)
	}
}
