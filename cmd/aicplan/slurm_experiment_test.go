package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aicplan/stages/executors"
)

// standInServer replaces vllm serve. With two GPUs it hangs until a file exists.
const standInServer = `
tp=1 dir=
while [ $# -gt 0 ]; do
    case $1 in
    --port) port=$2 ;;
    --tensor-parallel-size) tp=$2 ;;
    --profiler-config) dir=$(echo "$2" | sed 's/.*"torch_profiler_dir":"\([^"]*\)".*/\1/') ;;
    esac
    shift
done
echo "$tp" >> $EXPERIMENT/starts
if [ $tp = 2 ] && [ ! -e $EXPERIMENT/go ]; then
    touch $EXPERIMENT/hanging
    sleep 600
fi
traces=
for rank in $(seq $tp); do
    traces="$traces --profile-trace $EXPERIMENT/trace.json.gz"
done
exec aicplan mock-server --listen 127.0.0.1:$port --skip-tokenizer --ttft 50ms --itl 10ms --profile-dir $dir $traces > /dev/null
`

// allCells matches the result for three cells, of which the first call may have reported two.
var allCells = regexp.MustCompile(`Apply: (3 measured, 0|1 measured, 2) reused, 0 failed, 0 skipped`)

// TestExperimentOnProcesses runs plans/experiments/tp_scaling.hcl on the fake Slurm.
func TestExperimentOnProcesses(t *testing.T) {
	t.Parallel()
	disturbExperiment(t, []string{"SLURMTEST_DIR=" + t.TempDir()})
}

// disturbExperiment measures three cells, each in a job with its server. While the second server starts,
// its task and the coordinator are killed. Cells that were measured must be reused.
func disturbExperiment(t *testing.T, env []string) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3, which is asked for the version of vLLM, is not installed")
	}
	u := newClusterUser(t, env)
	root := repoRoot(t)
	u.env = append(u.env, "EXPERIMENT="+u.dir, "PYTHONPATH="+filepath.Join(u.dir, "site"), "PYTHONDONTWRITEBYTECODE=1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.CopyFS(filepath.Join(u.dir, "plans"), os.DirFS(filepath.Join(root, "plans"))))
	trace, err := os.ReadFile(filepath.Join(root, "cudaops", "trace", "testdata", "b200__eager_trace.json.gz"))
	must(err)
	dist := filepath.Join(u.dir, "site", "vllm-0.24.0.dist-info")
	must(os.MkdirAll(dist, 0o755))
	for name, text := range map[string]string{"trace.json.gz": string(trace), "vllm.sh": standInServer,
		filepath.Join(dist, "METADATA"): "Name: vllm\nVersion: 0.24.0\n"} {
		if !filepath.IsAbs(name) {
			name = filepath.Join(u.dir, name)
		}
		must(os.WriteFile(name, []byte(text), 0o644))
	}
	apply := func() *exec.Cmd {
		return u.command("apply", "--out-dir", u.out, "--var", "executor=slurm", "--var", "constraint=", "--var", "qos=",
			"--var", "poll=200ms",
			"--var", "dummy=true", "--var", "batch_size=2", "--var", "seq_len=64", "--var", "max_tokens=8", "--var",
			"warmup_iterations=1", "--var", "profile_iterations=2",
			"--var", "model="+filepath.Join(u.dir, "plans", "experiments",
				"llama-3.1-8b"), "--var", `program=["sh", "`+filepath.Join(u.dir, "vllm.sh")+`"]`,
			filepath.Join(u.dir, "plans", "experiments", "tp_scaling.hcl"))
	}
	var said bytes.Buffer
	first := apply()
	first.Stdout, first.Stderr = &said, &said
	must(first.Start())
	u.until("the cells of one and four GPUs", func() bool {
		for _, shard := range []int{0, 2} {
			if s := u.said(shard); s == nil || s.State != executors.Done {
				return false
			}
		}
		_, err := os.Stat(filepath.Join(u.dir, "hanging"))
		return err == nil
	})
	must(syscall.Kill(first.Process.Pid, syscall.SIGKILL))
	_ = first.Wait() // the test killed it
	must(syscall.Kill(u.said(1).PID, syscall.SIGKILL))
	must(os.WriteFile(filepath.Join(u.dir, "go"), nil, 0o644))

	second, err := apply().CombinedOutput()
	if err != nil || !allCells.Match(second) {
		t.Fatalf("the second call: %v\n%s\nthe first said:\n%s\n%s", err, second, said.String(), u.logs())
	}
	starts, err := os.ReadFile(filepath.Join(u.dir, "starts"))
	must(err)
	servers := strings.Fields(string(starts))
	slices.Sort(servers)
	if got := strings.Join(servers, " "); got != "1 2 2 4" {
		t.Errorf("servers were started for %s GPUs, want each once, and that of two once more", got)
	}
	third, err := apply().CombinedOutput()
	if err != nil || submitted.Match(third) || !bytes.Contains(third, []byte("nothing to do")) {
		t.Errorf("a run of finished work: %v\n%s", err, third)
	}
	summary, err := os.ReadFile(filepath.Join(u.out, "results_summary.csv"))
	must(err)
	for _, cell := range []string{"\nE1.1,llama-3.1-8b,1,1,1,1,", "\nE1.2,llama-3.1-8b,2,1,1,2,",
		"\nE1.3,llama-3.1-8b,4,1,1,4,"} {
		if !bytes.Contains(summary, []byte(cell)) {
			t.Errorf("the summary lacks %q:\n%s", cell, summary)
		}
	}
	for _, file := range []string{"E1.1/workload_card.yaml", "E1.2/kineto_trace_1.json", "E1.3/kineto_trace_3.json",
		"E1.3/timing_stats_3.json"} {
		if _, err := os.Stat(filepath.Join(u.out, file)); err != nil {
			t.Error(err)
		}
	}
}
