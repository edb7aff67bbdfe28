package pyhost_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// writeTree writes files of a test's own into a new folder.
func writeTree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The part of torch that keeps defaults, so that the test needs no torch.
const defaultsTorch = `
class device:
    def __init__(self, type): self.type = type
float32, bfloat16, float64 = "float32", "bfloat16", "float64"
_dtype, _device = float32, None
def get_default_dtype(): return _dtype
def set_default_dtype(dtype):
    global _dtype
    _dtype = dtype
def get_default_device(): return _device or device("cpu")
def set_default_device(d):
    global _device
    _device = device(d) if isinstance(d, str) else d
def manual_seed(seed): pass
`

// A collector that reports which defaults it found, and leaves others behind.
const defaultsCollector = `
import torch
from collector.helper import benchmark_with_power, log_perf

def run(n, *, perf_filename, device="cuda:0"):
    found = (torch.get_default_dtype(), "none" if torch._device is None else torch._device.type)
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device("cuda:0")
    with benchmark_with_power(device=device, kernel_func=lambda: sum(range(1000)), use_cuda_graph=False) as results:
        pass
    log_perf(item_list=[{"n": n, "found_dtype": found[0], "found_device": found[1], "latency": results["latency_ms"] / 6}],
             op_name="x", kernel_source="y", perf_filename=perf_filename)
    if n < 0:
        raise ValueError("after the defaults are set")
`

func TestHostedDefaultsOfTorchStayInTheirModule(t *testing.T) {
	root := writeTree(t, map[string]string{
		"torch.py":                 defaultsTorch,
		"collector/helper.py":      "",
		"collector/vllm/first.py":  defaultsCollector,
		"collector/vllm/second.py": defaultsCollector + "torch.set_default_dtype(torch.float64)\n",
	})
	bind := func(module string) m {
		return m{"module": "collector.vllm." + module, "run": "run", "perf_filename": "x_perf.txt", "args": []any{"n"}}
	}
	init := worker.Init{
		Options: hostSettings{CollectorRoot: root}.Options(nil),
		Ops:     raw(t, m{"first": bind("first"), "second": bind("second")}),
	}
	c, hello := start(t, init, "PYTHONPATH="+root)
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	check := func(op, dtype string) {
		t.Helper()
		row := c.rows(op, m{"n": 1}, nil)[0]
		if row["found_dtype"] != dtype || row["found_device"] != "none" {
			t.Errorf("%s found %v on %v, want %s and no device", op, row["found_dtype"], row["found_device"], dtype)
		}
	}
	check("first", "float32")
	check("second", "float64") // its own import's, not the first's
	check("first", "float32")
	c.fails("first", m{"n": -1})
	check("first", "float32")
}

func TestHostedStatisticsOfSeveralCallsInOne(t *testing.T) {
	root := writeTree(t, map[string]string{
		"torch.py": defaultsTorch, "collector/helper.py": "", "collector/vllm/first.py": defaultsCollector,
	})
	init := worker.Init{
		Options: hostSettings{CollectorRoot: root}.Options(nil),
		Ops: raw(t, m{"first": m{"module": "collector.vllm.first", "run": "run", "perf_filename": "x_perf.txt",
			"args": []any{"n"}}}),
	}
	c, hello := start(t, init, "PYTHONPATH="+root)
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	row := c.rows("first", m{"n": 1}, nil)[0]
	latency := row["latency"].(float64)
	p10, ok := row["p10"].(float64)
	if !ok || row["samples"] == nil || row["rel_stdev"] == nil {
		t.Fatalf("row = %v", row)
	}
	// They are of one call, as the latency is: not six times as large.
	if p90 := row["p90"].(float64); !(p10 <= latency) || !(p90 >= latency) {
		t.Errorf("latency %g lies outside p10 %g and p90 %g", latency, p10, p90)
	}
}

func TestHostedWithoutGPUSaysSoOnce(t *testing.T) {
	root := writeTree(t, map[string]string{
		"torch.py":            defaultsTorch + "class cuda:\n    def is_available(): return False\n",
		"collector/helper.py": "", "collector/vllm/first.py": defaultsCollector,
	})
	ops := m{"first": m{"module": "collector.vllm.first", "run": "run", "perf_filename": "x_perf.txt", "args": []any{"n"}}}
	settings := hostSettings{CollectorRoot: root}
	_, hello := start(t, worker.Init{Device: -1, Options: settings.Options(nil), Ops: raw(t, ops)}, "PYTHONPATH="+root)
	if hello.Error == nil || !strings.Contains(hello.Error.Message, "no GPU is visible") {
		t.Errorf("hello = %+v", hello.Error)
	}
	// Trying things out on the processor is said, and allowed.
	c, hello := start(t, worker.Init{Device: -1, Options: settings.Options(m{"device": "cpu"}), Ops: raw(t, ops)},
		"PYTHONPATH="+root)
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	c.rows("first", m{"n": 1}, nil)
}

// The part of torch that allocates, so that the test needs no torch.
const emptyTorch = defaultsTorch + `
import contextlib
float16 = "float16"
no_grad = contextlib.nullcontext
class Generator:
    def __init__(self, device): pass
    def manual_seed(self, seed): self.seed = seed
class Tensor:
    dtype, device, filled = bfloat16, device("cpu"), 0
    def detach(self): return self
    def numel(self): return 1
    def normal_(self, generator): self.filled = generator.seed
def empty(*size): return Tensor()
class cuda:
    def is_available(): return False
`

// A collector that leaves its weight uninitialised, and whose kernel allocates.
const emptyCollector = `
import torch
from collector.helper import benchmark_with_power, log_perf

def run(n, *, perf_filename, device="cuda:0"):
    weight, inside = torch.empty(n), []
    def kernel():
        inside.append(torch.empty(n).filled)
        sum(range(1000))
    with benchmark_with_power(device=device, kernel_func=kernel, use_cuda_graph=False) as results:
        pass
    log_perf(item_list=[{"n": n, "weight": weight.filled, "inside": sum(inside), "latency": results["latency_ms"]}],
             op_name="x", kernel_source="y", perf_filename=perf_filename)
`

func TestHostedMemoryThatNobodyFills(t *testing.T) {
	root := writeTree(t, map[string]string{"torch.py": emptyTorch, "collector/helper.py": "",
		"collector/vllm/first.py": emptyCollector})
	settings := hostSettings{CollectorRoot: root}
	begin := func(options, binding m) (*client, worker.Hello) {
		t.Helper()
		options["device"] = "cpu"
		maps.Copy(binding, m{"module": "collector.vllm.first", "run": "run", "perf_filename": "x_perf.txt",
			"args": []any{"n"}})
		ops := raw(t, m{"first": binding})
		return start(t, worker.Init{Device: -1, Options: settings.Options(options), Ops: ops}, "PYTHONPATH="+root)
	}
	weight := func(options, binding m) any {
		t.Helper()
		c, hello := begin(options, binding)
		if hello.Error != nil {
			t.Fatalf("%+v", hello.Error)
		}
		row := c.rows("first", m{"n": 1}, nil)[0]
		if row["inside"] != 0.0 {
			t.Errorf("%v, %v: what the kernel allocates was filled: %v", options, binding, row)
		}
		return row["weight"]
	}
	for _, c := range []struct {
		options, binding m
		filled           bool
	}{
		{m{}, m{}, false},
		{m{"uninitialised": "random"}, m{}, true},
		{m{}, m{"uninitialised": "random"}, true},
		{m{"uninitialised": "left"}, m{"uninitialised": "random"}, false},
	} {
		if got, ok := weight(c.options, c.binding).(float64); !ok || (got != 0) != c.filled {
			t.Errorf("options %v, binding %v: the weight is %v, filled should be %v", c.options, c.binding, got, c.filled)
		}
	}
	if _, hello := begin(m{}, m{"uninitialised": true}); hello.Error == nil ||
		!strings.Contains(hello.Error.Message, `the binding's uninitialised is "random" or left out`) {
		t.Errorf("a wrong word: %+v", hello.Error)
	}
}

// A collector that does so in a process of its own, and reports how that begins.
const startingCollector = `
import multiprocessing
import torch
from collector.helper import benchmark_with_power, log_perf

def measure(n, perf_filename):
    weight = torch.empty(n)
    with benchmark_with_power(device="cuda:0", kernel_func=lambda: sum(range(1000)), use_cuda_graph=False) as results:
        pass
    log_perf(item_list=[{"n": n, "weight": weight.filled, "latency": results["latency_ms"]}],
             op_name="x", kernel_source="y", perf_filename=perf_filename)

def run(n, how, *, perf_filename, device="cuda:0"):
    process = multiprocessing.get_context(how).Process(target=measure, args=(n, perf_filename))
    process.start()
    process.join()
`

// TestHostedMemoryOfOtherProcesses: a process that is forked fills as its worker
// does; one that starts afresh does not, and the worker logs that once.
func TestHostedMemoryOfOtherProcesses(t *testing.T) {
	root := writeTree(t, map[string]string{"torch.py": emptyTorch, "collector/helper.py": "",
		"collector/vllm/first.py": startingCollector})
	ops := raw(t, m{"first": m{"module": "collector.vllm.first", "run": "run", "perf_filename": "x_perf.txt",
		"args": []any{"n", "how"}}})
	settings := hostSettings{CollectorRoot: root}
	for how, filled := range map[string]bool{"fork": true, "spawn": false} {
		for _, option := range []string{"", "random"} {
			options := m{"device": "cpu"}
			if option != "" {
				options["uninitialised"] = option
			}
			c, hello := start(t, worker.Init{Device: -1, Options: settings.Options(options), Ops: ops}, "PYTHONPATH="+root)
			if hello.Error != nil {
				t.Fatalf("%+v", hello.Error)
			}
			for n := range 2 {
				row := c.rows("first", m{"n": n, "how": how}, nil)[0]
				if got := row["weight"] != 0.0; got != (filled && option != "") {
					t.Errorf("%s, %q: weight %v", how, option, row["weight"])
				}
			}
			said := 0
			for _, l := range c.logs {
				if strings.Contains(l.Text, "op first measures in processes that it starts anew") {
					said++
				}
			}
			if want := map[bool]int{true: 1}[!filled && option != ""]; said != want {
				t.Errorf("%s, %q: said %d times, want %d: %v", how, option, said, want, c.logs)
			}
		}
	}
}

// A collector that logs slowdowns reported by its helper.
const throttledCollector = `
from collector.helper import benchmark_with_power, log_perf

def run(n, *, perf_filename, device="cuda:0"):
    with benchmark_with_power(device=device, kernel_func=lambda: sum(range(1000)), use_cuda_graph=False) as results:
        pass
    log_perf(item_list=[{"n": n, "throttled": results["throttled"], "slow": bool(results["throttled"]), "latency": results["latency_ms"]}],
             op_name="x", kernel_source="y", perf_filename=perf_filename)
`

// TestHostedSlowdownThatNobodyKnows: where no driver was asked, a row that a collector
// makes of its helper's answer says nothing, too.
func TestHostedSlowdownThatNobodyKnows(t *testing.T) {
	root := writeTree(t, map[string]string{"collector/helper.py": "", "collector/vllm/first.py": throttledCollector})
	ops := raw(t, m{"first": m{"module": "collector.vllm.first", "run": "run", "perf_filename": "x_perf.txt",
		"args": []any{"n"}}})
	c, hello := start(t, worker.Init{Device: -1, Options: hostSettings{CollectorRoot: root}.Options(m{"device": "cpu"}),
		Ops: ops})
	if hello.Error != nil {
		t.Fatalf("%+v", hello.Error)
	}
	row := c.rows("first", m{"n": 1}, nil)[0]
	if row["throttled"] != nil || row["slow"] != false {
		t.Errorf("throttled is %v, and taken for %v", row["throttled"], row["slow"])
	}
}
