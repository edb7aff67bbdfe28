package pyhost_test

import (
	"os"
	"path/filepath"
	"testing"

	"aicplan/cudaops/worker"
)

// An op function that leaves a file behind in its worker's folder.
const folderOp = `
import os

def leaves(n, bench):
    with open(os.path.join(bench.folder(), "trace-%d" % n), "w"):
        pass
    return {"latency": 1.0, "folder": bench.folder(), "files": len([name for name in os.listdir(bench.folder()) if name.startswith("trace")])}
`

// TestFolderOfOpFunctions: all cases of a worker have the same folder, which goes
// with it: at its end, or when the next worker takes one where it was killed.
func TestFolderOfOpFunctions(t *testing.T) {
	t.Parallel()
	dir, temporary := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ops.py"), []byte(folderOp), 0o600); err != nil {
		t.Fatal(err)
	}
	left := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	work := func() (*client, string) {
		t.Helper()
		c, hello := start(t, worker.Init{Slot: "w0", Device: -1, Options: hostSettings{Path: []string{dir}}.Options(nil)},
			"TMPDIR="+temporary)
		if hello.Error != nil {
			t.Fatalf("%+v", hello.Error)
		}
		path := ""
		for n := range 2 {
			row := c.rows("leaves", m{"n": n}, nil)[0]
			if now, _ := row["folder"].(string); row["files"] != float64(n+1) || path != "" && now != path {
				t.Errorf("case %d has the folder %v with %v files", n, row["folder"], row["files"])
			} else {
				path = now
			}
		}
		if !left(path) || filepath.Dir(path) != temporary {
			t.Errorf("the folder is %q", path)
		}
		return c, path
	}
	c, killed := work()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.wait()
	c, path := work()
	if left(killed) {
		t.Error("the folder of a worker that was killed is still there")
	}
	c.shutdown()
	if left(path) {
		t.Error("the folder of a worker that has ended is still there")
	}
}
