//go:build linux

package comm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aicplan/sink/base/testutil"
)

// TestRanksOverSlurm starts ranks with srun on the nodes of a Slurm cluster that it starts on this host.
// COMM_TEST_SLURM overrides the size of four nodes with two ranks each, for example 16x4.
func TestRanksOverSlurm(t *testing.T) {
	testutil.SkipUnlessAll(t)
	nodes, perNode := 4, 2
	if size := os.Getenv("COMM_TEST_SLURM"); size != "" {
		if _, err := fmt.Sscanf(size, "%dx%d", &nodes, &perNode); err != nil {
			t.Fatalf("COMM_TEST_SLURM=%s: %v", size, err)
		}
	}
	t.Setenv("SLURM_CONF", slurmHere(t, nodes))
	b, starts := nodesBench(t, nodes, perNode, Srun)
	measureAcross(t, b, nodes, perNode)
	b.dieIn("broadcast")
	b.fails("framework_bug", "Killed", OpNCCL, ncclMethod(Broadcast, nodes*perNode, MethodGraph))
	b.must(OpNCCL, ncclMethod(AllGather, nodes*perNode, MethodGraph))
	if n := starts.Load(); n != 2 {
		t.Errorf("the ranks were started %d times, want 2", n)
	}
}

// slurmHere starts a Slurm cluster on this host and returns the path of its configuration.
func slurmHere(t *testing.T, nodes int) string {
	t.Helper()
	skip := t.Skipf
	if os.Getenv("AICPLAN_NEED_SLURM") != "" {
		skip = t.Fatalf // required in CI, which installs it
	}
	if os.Getuid() != 0 {
		skip("only root can start slurmd, which starts jobs as their owners")
	}
	// munged requires a short path that is accessible by all users.
	base, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	script, dir := filepath.Join("..", "..", ".ci", "slurm.sh"), filepath.Join(base, "c")
	if out, err := exec.Command("bash", script, "start", dir, fmt.Sprint(nodes)).CombinedOutput(); err != nil {
		skip("no Slurm could be started here (apt-get install slurm-wlm munge): %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("bash", script, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stopping Slurm: %v\n%s", err, out)
		}
	})
	return filepath.Join(dir, "etc", "slurm.conf")
}
