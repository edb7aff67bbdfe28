package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/sink/base/proc"
	"aicplan/sink/base/testutil"
	"aicplan/stages/executors"
)

// clusterPlan measures a synthetic op here or on a cluster. The exports must be the same bytes. GO is
// replaced by the path of a file.
const clusterPlan = `
variable "executor" {
  type    = string
  default = "local"
}
executor "local" { kind = "local" }
executor "cluster" {
  kind          = "slurm"
  time          = "00:30:00"
  tasks         = 4
  poll          = "200ms"
}
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  synthetic = true
}
grid "s" {
  op = "synthetic"
  axis "a" { values = range(40) }
  axis "b" { values = range(50) }
  # Every task has some cases that end at once, and others that wait for the test.
  derive "wait_for" { value = b < 10 ? "" : "GO" }
}
collect "s" {
  grid     = grid.s
  runtime  = runtime.cpu
  executor = var.executor == "slurm" ? executor.cluster : executor.local
}
gate "s" {
  input = collect.s
  check "coverage" { min = 1.0 }
  check "duplicates" { max = 0 }
}
export "s" {
  input = gate.s
  file  = "s_perf.txt"
}
`

const clusterCases = 2000

// TestClusterOfProcesses runs a collect on the fake Slurm. Two tasks and the coordinator are killed, and
// one task is requeued.
func TestClusterOfProcesses(t *testing.T) {
	t.Parallel()
	disturbCluster(t, []string{"SLURMTEST_DIR=" + t.TempDir()})
}

// TestRealSlurm repeats the test on a real Slurm on this host, and adds an experiment with servers.
func TestRealSlurm(t *testing.T) {
	testutil.SkipUnlessAll(t)
	t.Parallel()
	env := startSlurm(t)
	t.Run("collect", func(t *testing.T) { disturbCluster(t, env) })
	t.Run("experiment", func(t *testing.T) { disturbExperiment(t, env) })
}

// startSlurm starts a cluster of four nodes on this host and returns the environment variables for its
// users.
func startSlurm(t *testing.T) []string {
	t.Helper()
	skip := t.Skipf
	if os.Getenv("AICPLAN_NEED_SLURM") != "" {
		skip = t.Fatalf // required in CI
	}
	for _, name := range []string{"munged", "slurmctld", "slurmd"} {
		if _, err := exec.LookPath(name); err != nil {
			if _, err := os.Stat("/usr/sbin/" + name); err != nil {
				skip("there is no %s here: apt-get install slurm-wlm munge", name)
			}
		}
	}
	if os.Getuid() != 0 {
		skip("only root can start slurmd, which starts jobs as their owners")
	}
	// munged requires a short path that all users can traverse.
	base, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "c")
	script := filepath.Join(repoRoot(t), ".ci", "slurm.sh")
	run := func(what string) ([]byte, error) {
		cmd := exec.Command("bash", script, what, dir)
		cmd.Env = append(os.Environ(), "PATH=/usr/bin:/bin:/usr/sbin:/sbin") // without the fake commands
		return cmd.CombinedOutput()
	}
	if out, err := run("start"); err != nil {
		skip("no Slurm could be started here: %s", strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		if out, err := run("stop"); err != nil {
			t.Errorf("stopping Slurm: %v\n%s", err, out)
		}
	})
	return []string{"SLURM_CONF=" + filepath.Join(dir, "etc", "slurm.conf")}
}

// clusterUser applies clusterPlan.
type clusterUser struct {
	t                    *testing.T
	bin, dir, state, out string
	env                  []string
}

// newClusterUser creates a folder with the plan. Without SLURM_CONF in env, Slurm's commands are fake.
func newClusterUser(t *testing.T, env []string) *clusterUser {
	t.Helper()
	t.Cleanup(func() { endStandIn(t, env) })
	u := &clusterUser{t: t, bin: binDir(t), dir: t.TempDir(), env: env}
	u.state, u.out = filepath.Join(u.dir, "state"), filepath.Join(u.dir, "out")
	plan := strings.Replace(clusterPlan, "GO", u.goOn(), 1)
	if err := os.WriteFile(filepath.Join(u.dir, "plan.hcl"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "SLURM_CONF=") }) {
		return u
	}
	for _, name := range slurmCommands {
		if err := os.Remove(filepath.Join(u.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// endStandIn waits for the processes of the fake Slurm, because they write into folders that the test
// removes. It kills those that a kill has orphaned.
func endStandIn(t *testing.T, env []string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(5 * time.Second)
	for _, v := range env {
		for left := strings.HasPrefix(v, "SLURMTEST_DIR="); left; {
			pids := runningWith(v)
			left = len(pids) > 0
			select {
			case <-tick.C:
			case <-patience:
				for _, pid := range pids {
					t.Logf("ends %d: %s", pid, proc.CommandLine(pid))
					_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have ended
				}
			}
		}
	}
}

// runningWith returns the running processes, other than this one, with NAME=VALUE in their environment.
func runningWith(variable string) []int {
	var out []int
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		environ, _ := os.ReadFile(path) // the process may have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if pid != os.Getpid() && slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			out = append(out, pid)
		}
	}
	return out
}

// goOn returns the file that most cases of clusterPlan wait for.
func (u *clusterUser) goOn() string { return filepath.Join(u.dir, "go") }

func (u *clusterUser) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(u.bin, "aicplan"), args...)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), "AICPLAN_STATE_DIR="+u.state, "AICPLAN_LOCK_DIR="+filepath.Join(u.dir, "locks"),
		"PATH="+u.bin+":/usr/bin:/bin:/usr/sbin:/sbin")
	cmd.Env = append(cmd.Env, u.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (u *clusterUser) apply(args ...string) *exec.Cmd {
	return u.command(append([]string{"apply", "--out-dir", u.out, "--var", "executor=slurm", "plan.hcl"}, args...)...)
}

// until waits until is returns true.
func (u *clusterUser) until(what string, is func() bool) {
	u.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(5 * time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			u.t.Fatalf("waited in vain for %s; %s", what, u.logs())
		}
	}
}

// logs returns the output of the tasks.
func (u *clusterUser) logs() string {
	files, err := filepath.Glob(filepath.Join(u.state, "executors", "*", "*", "logs", "*"))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && len(raw) > 0 {
			fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(f), raw)
		}
	}
	return b.String()
}

// said returns the last status of a shard's task, or nil if it has reported none.
func (u *clusterUser) said(shard int) *executors.Status {
	files, err := filepath.Glob(filepath.Join(u.state, "executors", "*", "*", "tasks", fmt.Sprintf("%05d.json", shard)))
	if err != nil || len(files) == 0 {
		return nil
	}
	raw, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return nil
	}
	s := new(executors.Status)
	if json.Unmarshal(raw, s) != nil {
		return nil
	}
	return s
}

// stored returns the number of bytes that a shard's task has written to the journal.
func (u *clusterUser) stored(shard int) (n int64) {
	files, err := filepath.Glob(filepath.Join(u.state, "journal", "*", "*", fmt.Sprintf("*.%05d.seg", shard)))
	if err != nil {
		return 0
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}

func (u *clusterUser) export(name string) string {
	u.t.Helper()
	data, err := os.ReadFile(filepath.Join(u.out, name))
	if err != nil {
		u.t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n != clusterCases+1 {
		u.t.Errorf("%d lines in the export, want %d", n, clusterCases+1)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// follow starts a command and waits until it follows the tasks of an earlier one. said returns its
// output so far.
func (u *clusterUser) follow(cmd *exec.Cmd) (said func() string) {
	u.t.Helper()
	f, err := os.Create(filepath.Join(u.dir, "second"))
	if err != nil {
		u.t.Fatal(err)
	}
	defer f.Close()
	said = func() string {
		raw, err := os.ReadFile(f.Name())
		if err != nil {
			u.t.Error(err)
		}
		return string(raw)
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test ends first
	u.until("the second call", func() bool { return strings.Contains(said(), "follows the 4 tasks") })
	return said
}

var submitted = regexp.MustCompile(`(\d+) tasks? submitted as (\d+)`)

// disturbCluster collects on a cluster while two tasks are killed, one is requeued, and the coordinator
// is killed and restarted.
func disturbCluster(t *testing.T, env []string) {
	u := newClusterUser(t, env)
	local := u.command("apply", "--out-dir", filepath.Join(u.dir, "local"), "plan.hcl")
	local.Env = append(local.Env, "AICPLAN_STATE_DIR="+u.state+".local",
		"AICPLAN_LOCK_DIR="+filepath.Join(u.dir, "locks.local"))
	var saidLocally, said bytes.Buffer
	local.Stdout, local.Stderr = &saidLocally, &saidLocally
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = local.Process.Kill() }() // if the test ends first
	first := u.apply()
	first.Stdout, first.Stderr = &said, &said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for shard := range 3 {
		u.until(fmt.Sprintf("rows of task %d", shard), func() bool { return u.stored(shard) > 0 && u.said(shard) != nil })
	}
	for shard := range 2 {
		if err := syscall.Kill(u.said(shard).PID, syscall.SIGKILL); err != nil {
			t.Fatalf("task %d: %v", shard, err)
		}
	}
	if err := syscall.Kill(first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // the test killed it
	requeue := u.command()
	requeue.Path, requeue.Args = "/bin/sh", []string{"sh", "-c", "scontrol requeue " + u.said(2).Job}
	if out, err := requeue.CombinedOutput(); err != nil {
		t.Fatalf("requeue: %v\n%s", err, out)
	}
	// The second command takes over while tasks are running.
	again := u.apply()
	second := u.follow(again)
	if err := os.WriteFile(u.goOn(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err != nil {
		t.Fatalf("the second call: %v\n%s\nthe first said:\n%s\n%s", err, second(), said.String(), u.logs())
	}
	t.Logf("the first call, before it was killed:\n%s\nthe second call:\n%s", said.String(), second())
	if want := "Apply: 2,000 measured, 0 reused, 0 failed, 0 skipped"; !strings.Contains(second(), want) {
		t.Errorf("the second call does not end with %q", want)
	}
	if err := local.Wait(); err != nil {
		t.Fatalf("local run: %v\n%s", err, saidLocally.String())
	}
	if u.export("s_perf.txt") != u.export("../local/s_perf.txt") {
		t.Error("the export differs from that of a local run")
	}
	third, err := u.apply().CombinedOutput()
	if err != nil || submitted.Match(third) || !bytes.Contains(third, []byte("nothing to do")) {
		t.Errorf("a run of finished work: %v\n%s", err, third)
	}
	u.t.Logf("attempts: %d %d %d", u.said(0).Attempt, u.said(1).Attempt, u.said(2).Attempt)
	// Either Slurm requeued the job, or the coordinator submitted the shard again.
	if u.said(2).Attempt == 0 {
		t.Errorf("task 2 was not started again: %+v", u.said(2))
	}
}
