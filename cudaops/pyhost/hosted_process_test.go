package pyhost_test

import (
	"strings"
	"syscall"
	"testing"

	"aicplan/cudaops/worker"
)

// A collector whose child reports which device and settings it measures with.
const childCollector = `
import os, subprocess, sys

def run(n, *, perf_filename, device="cuda:0"):
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="0") if n == 2 else None
    subprocess.run([sys.executable, __file__, perf_filename], check=True, env=env)

if __name__ == "__main__":
    import helper
    bench = vars(helper)["_bench"]
    helper.log_perf(item_list=[{"latency": 1.0, "protocol": bench.settings["protocol"], "kind": bench.device.type,
                                "visible": os.environ["CUDA_VISIBLE_DEVICES"]}],
                    op_name="x", kernel_source="y", perf_filename=sys.argv[1])
`

func TestHostedChildrenMeasureAsTheirWorkerDoes(t *testing.T) {
	root := writeTree(t, map[string]string{"collector/helper.py": "", "collector/vllm/child.py": childCollector})
	ops := raw(t, m{"x": m{"module": "collector.vllm.child", "run": "run", "perf_filename": "x_perf.txt",
		"args": []any{"n"}}})
	// Which of the node's devices the power counters are read from is the
	// worker's, whatever number it has among those that a child sees.
	init := worker.Init{Kind: "python", Slot: "w3", Device: 3, Options: hostSettings{CollectorRoot: root}.Options(nil),
		UUID: "GPU-7", Env: map[string]string{"CUDA_VISIBLE_DEVICES": "5,3"}, Ops: ops}
	c, hello := start(t, init)
	if e := hello.Error; e != nil && e.Class == worker.ClassResourceIssue && strings.Contains(e.Message, "torch") {
		t.Skipf("a Python with torch wants a real device 3: %s", e.Message)
	}
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	for _, protocol := range []string{"adaptive", "reference"} {
		if protocol == "reference" {
			c.send(worker.Configure{Type: worker.TypeConfigure, Measure: raw(t, m{"protocol": protocol}), Ops: ops})
		}
		row := c.rows("x", m{"n": 1}, nil)[0]
		if row["protocol"] != protocol || row["kind"] != "cuda" {
			t.Errorf("a child measured on %v by %v, want cuda by %s", row["kind"], row["protocol"], protocol)
		}
	}

	// A child that is given device 0 of those that its worker sees runs on the worker's.
	for n, want := range map[int]string{1: "5,3", 2: "GPU-7"} {
		if got := c.rows("x", m{"n": n}, nil)[0]["visible"]; got != want {
			t.Errorf("child %d sees the devices %v, want %s", n, got, want)
		}
	}
}

// A collector that asks for a fresh process after a case that gave nothing.
const restartCollector = `
import sys

class WorkerRestartSignal: pass

def run(how, *, perf_filename, device="cuda:0"):
    if how == "exit":
        sys.exit(10)
    return WorkerRestartSignal()
`

func TestHostedRestartAfterACaseWithoutRows(t *testing.T) {
	root := writeTree(t, map[string]string{"collector/helper.py": "", "collector/vllm/restart.py": restartCollector})
	for how, want := range map[string]string{"exit": "exit status 10", "sentinel": "asked for a fresh process"} {
		init := worker.Init{Options: hostSettings{CollectorRoot: root}.Options(nil),
			Ops: raw(t, m{"x": m{"module": "collector.vllm.restart", "run": "run", "args": []any{"how"}}})}
		c, hello := start(t, init)
		if hello.Error != nil {
			t.Fatalf("%+v", hello.Error)
		}
		if f := c.fails("x", m{"how": how}); f.Class != worker.ClassCollectorBug ||
			!strings.Contains(f.Message, "without logging a row") {
			t.Errorf("%s: %+v", how, f)
		}
		if bye := c.bye(); !strings.Contains(bye.Restart, want) {
			t.Errorf("%s: restart = %q", how, bye.Restart)
		}
	}
}

func TestHostedOpThatWantsAProcessOfItsOwnAndHasNoModule(t *testing.T) {
	ops := moe(m{"env": m{"TRTLLM_MOE_RESTART_WORKER": 0}, "isolate": true,
		"versions": []m{{"min": "99.0", "module": "collector.trtllm.absent"}}})
	delete(ops["moe"].(m), "module")
	ops["compute_scale"] = m{"module": "collector.trtllm.collect_computescale", "run": "run_computescale",
		"env": m{"TRTLLM_MOE_RESTART_WORKER": 0}}
	c, _ := checkout(t, "tensorrt_llm", ops)
	c.rows("compute_scale", m{"m": 1, "k": 1}, nil)
	// Another process would not have it either: the case ends here.
	if f := c.fails("moe", moeParams); f.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(f.Message, "oldest route is for 99.0") {
		t.Errorf("%+v", f)
	}
}

// A getter that sets defaults of torch, as modules do.
const getterCollector = `
import torch
torch.set_default_dtype(torch.bfloat16)

def cases():
    assert torch.get_default_dtype() == torch.bfloat16
    torch.set_default_dtype(torch.float64)
    return [[1]]

def run(n, *, perf_filename, device="cuda:0"):
    from helper import log_perf
    log_perf(item_list=[{"n": n, "latency": 1.0, "found": torch.get_default_dtype()}], op_name="x", kernel_source="y", perf_filename=perf_filename)
`

func TestHostedGettersFindTheirModulesDefaults(t *testing.T) {
	root := writeTree(t, map[string]string{"torch.py": defaultsTorch, "collector/helper.py": "",
		"collector/vllm/getter.py": getterCollector})
	init := worker.Init{Options: hostSettings{CollectorRoot: root}.Options(nil),
		Ops: raw(t, m{"x": m{"module": "collector.vllm.getter", "run": "run", "getter": "cases", "match": m{"n": "n"}}})}
	c, hello := start(t, init, "PYTHONPATH="+root)
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	if row := c.rows("x", m{"n": 1}, nil)[0]; row["found"] != "bfloat16" {
		t.Errorf("the case found %v", row["found"])
	}
}

func TestOpThatReturnsNoRow(t *testing.T) {
	root := writeTree(t, map[string]string{"ops.py": "def x(bench):\n    return 3.5\n"})
	c, hello := start(t, worker.Init{Options: hostSettings{Path: []string{root}}.Options(nil)})
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	if f := c.fails("x", m{}); f.Class != worker.ClassCollectorBug || !strings.Contains(f.Message, "returned a float") {
		t.Errorf("%+v", f)
	}
}

// TestHangingOpShowsWhereItIs sends what the engine sends to a worker that hangs. The log has what a child of
// the op printed.
func TestHangingOpShowsWhereItIs(t *testing.T) {
	root := writeTree(t, map[string]string{"ops.py": `
import subprocess, sys, threading

def hangs_here(bench):
    child = "import os, sys; print('loads layers'); os.close(2); sys.stdin.read(); os._exit(0)"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stderr.read()
        bench._log('info', 'in the op')
        threading.Event().wait()
`})
	c, hello := start(t, worker.Init{Options: hostSettings{Path: []string{root}}.Options(nil)}, "PYTHONUNBUFFERED=")
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	c.submit("hangs_here", m{}, nil)
	var s worker.Start
	c.next(worker.TypeStart, &s)
	var l worker.Log
	c.next(worker.TypeLog, &l)
	if err := c.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(); code != -1 {
		t.Errorf("the worker ended with status %d, want the signal", code)
	}
	for _, want := range []string{"hangs_here", "loads layers"} {
		if !strings.Contains(c.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, c.log.String())
		}
	}
}

// A function may fork and let the child return, raise or exit: the child ends there, and takes nothing of the worker along.
const forkingOps = `
import os
from collector.helper import log_perf

def log(n, perf_filename, **more):
    log_perf(item_list=[{"n": n, "latency": 1.0, **more}], op_name="x", kernel_source="y", perf_filename=perf_filename)

def run(n, *, perf_filename, device="cuda:0"):
    first = os.fork()
    if first == 0:
        log(n, perf_filename, by="first")
        os._exit(0)
    os.waitpid(first, 0)
    child = os.fork()
    if child == 0:
        if n == 2:
            raise ValueError("in the child")
        if n == 3:
            raise SystemExit(7)
        return
    log(n, perf_filename, by="worker", status=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

def powered(*, perf_filename, device="cuda:0"):
    log_perf(item_list=[{"latency": 1.0}], op_name="x", kernel_source="y", perf_filename=perf_filename,
             power_stats={"power": 312.5, "power_limit": "700"})
`

const forkingFunction = `
import os

def forks(n, k, bench):
    child = os.fork()
    if child == 0 and n == 2:
        raise ValueError("in the child")
    if child == 0:
        return {"latency": 9.0}
    return {"latency": 1.0, "status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
`

func TestForkedChildEndsWithTheFunctionOfItsCase(t *testing.T) {
	t.Parallel()
	root := writeTree(t, map[string]string{
		"collector/helper.py": "", "collector/vllm/forking.py": forkingOps, "ops.py": forkingFunction,
	})
	bind := func(run string, args ...any) m {
		return m{"module": "collector.vllm.forking", "run": run, "perf_filename": "x_perf.txt", "args": args}
	}
	c, hello := start(t, worker.Init{
		Options: hostSettings{CollectorRoot: root, Path: []string{root + "/ops.py"}}.Options(nil),
		Ops:     raw(t, m{"hosted": bind("run", "n"), "powered": bind("powered"), "forks": m{}}),
	})
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}

	for n, status := range map[int]float64{1: 0, 2: 1, 3: 7} {
		rows := c.rows("hosted", m{"n": n}, nil)
		if len(rows) != 2 || rows[0]["by"] != "worker" || rows[0]["status"] != status || rows[1]["by"] != "first" {
			t.Errorf("n = %d: rows = %v", n, rows)
		}
	}
	for n, status := range map[int]float64{1: 0, 2: 1} {
		rows := c.rows("forks", m{"n": n}, []m{{"k": 1}, {"k": 2}})
		if len(rows) != 2 || rows[0]["status"] != status || rows[1]["status"] != status {
			t.Errorf("n = %d: rows = %v", n, rows)
		}
	}
	if row := c.rows("powered", m{}, nil)[0]; row["power"] != 312.5 || row["power_limit"] != 700.0 {
		t.Errorf("power that a collector has measured itself: %v", row)
	}
}

// A collector that leaves a thread behind, which logs and measures while the next case is at work.
const leavingCollector = `
import threading
from collector.helper import benchmark_with_power, log_perf

left = []

def late(go, perf_filename, device):
    go.wait()
    log_perf(item_list=[{"latency": 99.0}], op_name="x", kernel_source="y", perf_filename=perf_filename)
    with benchmark_with_power(device, lambda: None):
        print("measured late")

def run(n, *, perf_filename, device="cuda:0"):
    if left:
        go, thread = left.pop()
        go.set()
        thread.join()
    go = threading.Event()
    thread = threading.Thread(target=late, args=(go, perf_filename, device), daemon=True)
    thread.start()
    left.append((go, thread))
    own = threading.Thread(target=log_perf, args=([{"latency": float(n)}],), kwargs={"perf_filename": perf_filename})
    own.start()
    own.join()
`

func TestThreadOfAnEarlierCaseLogsAndMeasuresNothing(t *testing.T) {
	t.Parallel()
	root := writeTree(t, map[string]string{"collector/helper.py": "", "collector/vllm/leaving.py": leavingCollector})
	c, hello := start(t, worker.Init{
		Options: hostSettings{CollectorRoot: root}.Options(nil),
		Ops: raw(t, m{"leaving": m{"module": "collector.vllm.leaving", "run": "run", "perf_filename": "x_perf.txt",
			"args": []any{"n"}}}),
	})
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}

	for n := range 3 {
		if rows := c.rows("leaving", m{"n": n + 1}, nil); len(rows) != 1 || rows[0]["latency"] != float64(n+1) {
			t.Errorf("n = %d: rows = %v", n+1, rows)
		}
	}
	c.shutdown()
	if log := c.log.String(); strings.Contains(log, "measured late") || !strings.Contains(log, "left behind cannot measure") {
		t.Errorf("log = %q", log)
	}
}
