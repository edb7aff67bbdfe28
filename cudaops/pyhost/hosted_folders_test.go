package pyhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

func TestHostedWorkFolderAndDevice(t *testing.T) {
	c, _ := checkout(t, "sglang", gdn("run_where"))
	row := c.rows("gdn", m{"phase": "context"}, nil)[0]
	cwd := row["cwd"].(string)
	if strings.Contains(cwd, "context") || cwd == c.cmd.Dir || !strings.Contains(filepath.Base(cwd), "w0") {
		t.Errorf("cwd = %s", cwd)
	}
	if row["perf"] != "gdn_perf.txt" || row["device_arg"] != "cpu" {
		t.Errorf("row = %v", row)
	}
	c.shutdown()
	if _, err := os.Stat(cwd); !os.IsNotExist(err) {
		t.Errorf("the work folder is still there: %v", err)
	}
}

// TestHostedTemporaryFilesGo: what collectors and their children leave in the
// temporary folder goes with the worker, killed or not; what torch has compiled stays.
func TestHostedTemporaryFilesGo(t *testing.T) {
	t.Parallel()
	// The path of a socket in it must not become too long.
	temporary, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temporary) })
	kernel := filepath.Join(temporary, "me", "cutlass_python_cache", "kernel")
	if err := os.MkdirAll(filepath.Dir(kernel), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kernel, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, workdir := range []string{"", t.TempDir()} {
		init := worker.Init{Ops: raw(t, gdn("run_leaving")),
			Options: hostSettings{Package: "sglang", CollectorRoot: testdata(t, "checkout"), WorkDir: workdir}.Options(nil)}
		measured := func() (*client, worker.Row) {
			c, _ := start(t, init, "PYTHONPATH="+testdata(t, "frameworks"), "TMPDIR="+temporary, "LOGNAME=me", "USER=me")
			row := c.rows("gdn", m{"phase": "context"}, nil)[0]
			for _, name := range []string{"left", "child"} {
				if rel, err := filepath.Rel(temporary, row[name].(string)); err != nil ||
					!strings.HasPrefix(rel, "aicplan-worker-w0-") {
					t.Errorf("%s: %s is %s in %s", workdir, name, rel, temporary)
				}
			}
			if row["kernels"] != 1.0 {
				t.Errorf("%s: %v compiled kernels are found again", workdir, row["kernels"])
			}
			if at := row["compiled"].(string); filepath.Dir(at) != temporary {
				t.Errorf("%s: torch keeps what it compiles in %s", workdir, at)
			}
			return c, row
		}
		empty := func(after string) {
			t.Helper()
			if left, err := os.ReadDir(temporary); err != nil || len(left) != 1 || left[0].Name() != "me" {
				t.Errorf("%q: %s has left %v, %v", workdir, after, left, err)
			}
			if _, err := os.Stat(kernel); err != nil {
				t.Errorf("%q: %s has removed what was compiled: %v", workdir, after, err)
			}
		}
		c, _ := measured()
		c.shutdown()
		empty("a worker that ended")
		killed, row := measured()
		if err := killed.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed.wait()
		if _, err := os.Stat(row["left"].(string)); err != nil {
			t.Fatalf("a killed worker left nothing, so that nothing is tested: %v", err)
		}
		c, _ = measured()
		c.shutdown()
		empty("the worker after a killed one")
	}
}

func TestHostedWorkFoldersOfKilledWorkersGo(t *testing.T) {
	dir := t.TempDir()
	init := worker.Init{Ops: raw(t, gdn("run_where")),
		Options: hostSettings{Package: "sglang", CollectorRoot: testdata(t, "checkout"), WorkDir: dir}.Options(nil)}
	env := "PYTHONPATH=" + testdata(t, "frameworks")
	folder := func(c *client) string {
		t.Helper()
		return c.rows("gdn", m{"phase": "context"}, nil)[0]["cwd"].(string)
	}
	killed, _ := start(t, init, env)
	lost := folder(killed)
	alive, _ := start(t, init, env)
	kept := folder(alive)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.wait()
	if _, err := os.Stat(lost); err != nil {
		t.Fatalf("the folder of a killed worker is not there, so that nothing is tested: %v", err)
	}
	// What a removal leaves that was itself cut short: nothing but the folder.
	empty := filepath.Join(dir, "aicplan-worker-w0-abcd_123")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	next, _ := start(t, init, env)
	folder(next)
	if _, err := os.Stat(empty); !os.IsNotExist(err) {
		t.Errorf("an empty folder is still there: %v", err)
	}
	if _, err := os.Stat(lost); !os.IsNotExist(err) {
		t.Errorf("the folder of the killed worker is still there: %v", err)
	}
	if again := folder(alive); again != kept {
		t.Errorf("a worker that lives has lost its folder %s; it is in %s", kept, again)
	}
}

func TestHostedWorkFolderMustNotNameAPhase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "long_context_runs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	init := worker.Init{Ops: raw(t, gdn("run_where")),
		Options: hostSettings{Package: "sglang", CollectorRoot: testdata(t, "checkout"), WorkDir: dir}.Options(nil)}
	_, hello := start(t, init, "PYTHONPATH="+testdata(t, "frameworks"))
	if hello.Error == nil || !strings.Contains(hello.Error.Message, "workdir") {
		t.Errorf("hello = %+v", hello)
	}
}
