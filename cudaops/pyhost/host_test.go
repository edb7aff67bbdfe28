package pyhost_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
)

func basic(t testing.TB, extra m) worker.Init {
	return worker.Init{Seed: 7, Options: hostSettings{Path: []string{testdata(t, "ops", "basic.py")}}.Options(extra)}
}

func TestHelloNamesWhatTheWorkerIs(t *testing.T) {
	c, hello := start(t, basic(t, nil))
	if hello.Error != nil {
		t.Fatal(hello.Error.Message)
	}
	if hello.Protocol != worker.ProtocolVersion || hello.Pid != c.cmd.Process.Pid || hello.Window < 1 || !hello.Configure {
		t.Errorf("hello = %+v", hello)
	}
	if hello.Version == "" || hello.Env["python"] != hello.Version || hello.Device == "" {
		t.Errorf("without a package, version is the interpreter's: %+v", hello)
	}
	if v, ok := hello.Env["gpu_uuids"]; ok {
		t.Errorf("a worker without GPUs names %q", v)
	}
	ops := strings.Join(hello.Ops, " ")
	if !strings.Contains(ops, "spin") || strings.Contains(ops, "_private") || strings.Contains(ops, "no_bench") {
		t.Errorf("ops = %s: every public function that takes bench, and no other", ops)
	}
	if bye := c.shutdown(); bye.Restart != "" {
		t.Errorf("restart = %q after a shutdown", bye.Restart)
	}
}

// TestHelloNamesAllGPUs has one worker for several GPUs: what is counted beside its
// cases has to know them.
func TestHelloNamesAllGPUs(t *testing.T) {
	init := basic(t, nil)
	if init.Options == nil {
		init.Options = m{}
	}
	init.Options["gpu_uuids"] = "GPU-a GPU-b"
	c, hello := start(t, init)
	if got := hello.Env["gpu_uuids"]; got != "GPU-a GPU-b" {
		t.Errorf("gpu_uuids %q; %+v", got, hello.Error)
	}
	c.shutdown()
}

func TestMeasurementColumns(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	small := c.rows("spin", m{"n": 50}, nil)[0]
	large := c.rows("spin", m{"n": 50000}, nil)[0]
	for _, name := range []string{"latency", "samples", "rel_stdev", "p10", "p90", "passes", "pass_spread", "executions",
		"block_ms"} {
		v, ok := small[name].(float64)
		if !ok || v < 0 || math.IsNaN(v) {
			t.Errorf("%s = %v", name, small[name])
		}
	}
	if small["used_cuda_graph"] != false || small["protocol"] != "adaptive" || small["kernel_source"] != "python_loop" {
		t.Errorf("row = %v", small)
	}
	// A busy machine makes a latency longer and never shorter.
	s, l := small["latency"].(float64), large["latency"].(float64)
	for try := 0; l < 20*s && try < 20; try++ {
		s = min(s, c.rows("spin", m{"n": 50}, nil)[0]["latency"].(float64))
	}
	if !(l >= 20*s) {
		t.Errorf("a thousand times the work took %g ms against %g ms", l, s)
	}
	if !(small["p10"].(float64) <= small["p90"].(float64)) {
		t.Errorf("p10 %v above p90 %v", small["p10"], small["p90"])
	}
	if !(small["passes"].(float64) >= 2) {
		t.Errorf("passes = %v, want at least 2", small["passes"])
	}
}

func TestReferenceProtocol(t *testing.T) {
	init := basic(t, nil)
	init.Measure = raw(t, m{"protocol": "reference"})
	c, _ := start(t, init)
	row := c.rows("spin", m{"n": 100}, nil)[0]
	if row["protocol"] != "reference" || row["samples"] != 1.0 || row["executions"] != 12.0 {
		t.Errorf("row = %v, want one mean over 3 + 3 + 6 executions", row)
	}
}

func TestConfigureReplacesSettingsOpsAndSeed(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	before := c.rows("echo", m{}, nil)[0]
	c.send(worker.Configure{Type: worker.TypeConfigure, Seed: 8, Measure: raw(t, m{"protocol": "reference"}),
		Ops: raw(t, m{"echo": m{"file": testdata(t, "ops", "basic.py"), "function": "echo"},
			"spin": m{"file": testdata(t, "ops", "basic.py")}})})
	after := c.rows("echo", m{}, nil)[0]
	if before["seed"] == after["seed"] {
		t.Error("another seed gave the same seed")
	}
	if row := c.rows("spin", m{"n": 10}, nil)[0]; row["protocol"] != "reference" {
		t.Errorf("protocol = %v after configure", row["protocol"])
	}
	if f := c.fails("noop", m{}); !strings.Contains(f.Message, "no op noop") {
		t.Errorf("message = %q", f.Message)
	}
}

func TestSeedsDependOnTheCaseAlone(t *testing.T) {
	seeds := map[float64]bool{}
	for range 2 {
		c, _ := start(t, basic(t, nil))
		c.rows("noop", m{}, nil)
		seeds[c.rows("echo", m{}, nil)[0]["seed"].(float64)] = true
		c.shutdown()
	}
	if len(seeds) != 1 {
		t.Errorf("seeds of one case in two workers: %v", seeds)
	}
}

func TestParametersByName(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	row := c.rows("echo", m{"a": 1, "b": "x", "c": true, "d": nil, "e": 1.5}, nil)[0]
	want := m{"got_a": 1.0, "got_b": "x", "got_c": true, "got_d": nil, "got_e": 1.5}
	for k, v := range want {
		if row[k] != v {
			t.Errorf("%s = %v, want %v", k, row[k], v)
		}
	}
	if f := c.fails("spin", m{"n": 1, "extra": 2}); f.Class != worker.ClassCollectorBug ||
		!strings.Contains(f.Message, "extra") {
		t.Errorf("a parameter that the function does not take: %+v", f)
	}
	if f := c.fails("spin", m{}); f.Class != worker.ClassCollectorBug || !strings.Contains(f.Message, "needs n") {
		t.Errorf("a parameter that is missing: %+v", f)
	}
}

func TestSweep(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	points := []m{{"k": 1}, {"k": 2}, {"k": 5}}
	rows := c.rows("per_point", m{"base": 10}, points)
	if len(rows) != 6 || rows[5]["latency"] != 50.0 || rows[5]["k"] != 5.0 || rows[4]["half"] != "pre" {
		t.Errorf("rows of a function called per point: %v", rows)
	}
	rows = c.rows("whole_sweep", m{"base": 10}, points)
	if len(rows) != 3 || rows[2]["latency"] != 15.0 {
		t.Errorf("rows of a function that sweeps itself: %v", rows)
	}
	c.told = nil
	a := c.run("fails_at", m{"limit": 3}, points)
	if len(a.Rows) != 2 || len(c.told) != 2 {
		t.Errorf("rows of the points before: %v, told on the way: %v", a.Rows, c.told)
	}
	if a.Failure == nil || !strings.Contains(a.Failure.Message, "k=5") || !strings.Contains(a.Failure.Message, "2 of 3") {
		t.Errorf("a sweep that fails on the way: %+v", a)
	}
}

func TestFailureClasses(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	for _, tt := range []struct{ op, class, exception string }{
		{"unsupported", worker.ClassUnsupportedConfig, "Unsupported"},
		{"memory", worker.ClassResourceIssue, "MemoryError"},
		{"cuda_oom", worker.ClassResourceIssue, "RuntimeError"},
	} {
		f := c.fails(tt.op, m{})
		if f.Class != tt.class || f.Exception != tt.exception || f.Fatal {
			t.Errorf("%s: %+v", tt.op, f)
		}
		if !strings.Contains(f.Traceback, "basic.py") {
			t.Errorf("%s: the traceback does not lead to the op:\n%s", tt.op, f.Traceback)
		}
	}
	f := c.fails("cuda_fault", m{})
	if !f.Fatal || f.Class != worker.ClassFrameworkBug {
		t.Errorf("a sticky CUDA error: %+v", f)
	}
	if bye := c.bye(); !strings.Contains(bye.Restart, "illegal memory access") {
		t.Errorf("restart = %q", bye.Restart)
	}
}

func TestPrintsGoToTheLogOnly(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	c.rows("prints", m{"text": `{"type":"result","seq":1}`}, nil)
	c.rows("noop", m{}, nil)
	c.shutdown()
	if log := c.log.String(); strings.Count(log, `"seq":1}`) != 3 || !strings.Contains(log, "from C:") {
		t.Errorf("log = %q", log)
	}
}

func TestChildrenDoNotHoldThePipe(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	if row := c.rows("descriptors", m{}, nil)[0]; row["inherited"] != 0.0 || row["mine"] != 2.0 {
		t.Errorf("of the worker's pipe ends a child process inherits %v of %v", row["inherited"], row["mine"])
	}
	if row := c.rows("forks", m{}, nil)[0]; row["pipes"] != 0.0 || row["mine"] != 2.0 {
		t.Errorf("a forked child holds %v of %v pipe ends", row["pipes"], row["mine"])
	}
}

func TestModulesBesideAnOpFile(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	if row := c.rows("helper_of_file", m{}, nil)[0]; row["latency"] != 2.5 {
		t.Errorf("row = %v", row)
	}
}

func TestAThreadLeftBehindDoesNotHoldTheWorker(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	c.rows("thread_left", m{}, nil)
	c.shutdown() // waits for the process
}

func TestHelloErrors(t *testing.T) {
	missing := func(s hostSettings) worker.Init { return worker.Init{Options: s.Options(nil)} }
	for name, tt := range map[string]struct {
		init worker.Init
		want []string
	}{
		"package": {missing(hostSettings{Package: "tensorrt_llm_absent"}),
			[]string{"no package tensorrt_llm_absent", "python ="}},
		"ops":  {missing(hostSettings{}), []string{"no ops"}},
		"path": {missing(hostSettings{Path: []string{"/nowhere/ops"}}), []string{"/nowhere/ops does not exist"}},
		"import": {worker.Init{Ops: raw(t, m{"x": m{"file": testdata(t, "ops", "broken.py")}})},
			[]string{"no module named", "surely_absent"}},
		"function": {worker.Init{Ops: raw(t, m{"x": m{"file": testdata(t, "ops", "basic.py"), "function": "absent"}})},
			[]string{"no function absent"}},
		"file": {worker.Init{Ops: raw(t, m{"x": m{"file": "absent.py"}})}, []string{"no file absent.py"}},
		"collector": {worker.Init{Ops: raw(t, m{"x": m{"module": "collector.a", "run": "run"}})},
			[]string{"collector_root"}},
		"requirements": {missing(hostSettings{Package: "standin_framework", Requires: ">=2"}),
			[]string{"1.3.0rc20", "requires >=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, hello := start(t, tt.init, "PYTHONPATH="+testdata(t, "frameworks"))
			if hello.Error == nil {
				t.Fatal("hello has no error")
			}
			for _, w := range tt.want {
				if !strings.Contains(strings.ToLower(hello.Error.Message), strings.ToLower(w)) {
					t.Errorf("message %q lacks %q", hello.Error.Message, w)
				}
			}
			if hello.Error.Class == "" {
				t.Errorf("no class: %+v", hello.Error)
			}
			if code := c.wait(); code == 0 {
				t.Error("a worker that cannot work exited with 0")
			}
		})
	}
}

func TestProtocolVersion(t *testing.T) {
	c := spawn(t)
	c.send(worker.Init{Type: worker.TypeInit, Protocol: 99, Device: -1})
	var hello worker.Hello
	c.next(worker.TypeHello, &hello)
	if hello.Error == nil || !strings.Contains(hello.Error.Message, "version 99") {
		t.Errorf("hello = %+v", hello)
	}
	c.wait()
}

func TestTheEngineIsGone(t *testing.T) {
	c, _ := start(t, basic(t, nil))
	c.in.Close()
	if code := c.wait(); code == 0 {
		t.Error("a worker whose engine vanished exited with 0")
	}
}

func TestStartedByHand(t *testing.T) {
	path, args, err := pyhost.Command(python(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, err := runPlain(path, args...)
	if err == nil || !strings.Contains(out, "not by hand") {
		t.Errorf("err = %v, output %q", err, out)
	}
}

func TestLauncher(t *testing.T) {
	// env takes the place of docker run: a program that passes on its standard streams.
	python := python(t)
	c := spawnCommand(t, func(dir string) (string, []string, error) {
		host, err := pyhost.Write(dir)
		if err != nil {
			return "", nil, err
		}
		path, args, err := worker.Through([]string{"env", "LAUNCHED=yes"}, "", []string{python, "-u", host})
		return path, args[1:], err
	})
	init := basic(t, nil)
	init.Type, init.Protocol, init.Device = worker.TypeInit, worker.ProtocolVersion, -1
	c.send(init)
	var hello worker.Hello
	c.next(worker.TypeHello, &hello)
	c.rows("prints", m{"text": "loud"}, nil)
	c.shutdown()
	if log := c.log.String(); strings.Count(log, "loud") != 3 {
		t.Errorf("what the op printed is not in the log: %q", log)
	}
}

func TestWriteKeepsAndRepairsTheFile(t *testing.T) {
	dir := t.TempDir()
	path, err := pyhost.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := pyhost.Write(dir); err != nil || again != path {
		t.Fatalf("%s, %v", again, err)
	}
	if have, _ := os.ReadFile(path); string(have) != string(want) {
		t.Error("a damaged host was kept")
	}
	if _, _, err := pyhost.Command("/nowhere/python3", dir); err == nil || !strings.Contains(err.Error(), "python =") {
		t.Errorf("err = %v", err)
	}
}

func TestSkeletonMeasuresAtOnce(t *testing.T) {
	s, err := pyhost.Skeleton("my_kernel")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), s.File)
	if err := os.WriteFile(path, []byte(s.Python), 0o644); err != nil {
		t.Fatal(err)
	}
	measure := func(pkg, dtype, source string) {
		t.Helper()
		c, hello := start(t, worker.Init{Options: hostSettings{Path: []string{path}, Package: pkg,
			Verify: true}.Options(nil)})
		if hello.Error != nil && pkg != "" {
			return // no torch here
		}
		if !slices.Equal(hello.Ops, []string{"my_kernel_context", "my_kernel_generation"}) {
			t.Fatalf("ops = %v, error %+v", hello.Ops, hello.Error)
		}
		for op, length := range map[string]string{"my_kernel_context": "isl", "my_kernel_generation": "step"} {
			row := c.rows(op, m{"batch_size": 1, length: 4, "num_heads": 2, "tp_size": 2, "head_dim": 8, "dtype": dtype}, nil)[0]
			if v, ok := row["latency"].(float64); !ok || !(v > 0) || row["kernel_source"] != source {
				t.Errorf("package %q, %s: row = %v", pkg, op, row)
			}
		}
		if pkg != "" {
			return
		}
		if f := c.fails("my_kernel_context",
			m{"batch_size": 1, "isl": 4, "num_heads": 2, "tp_size": 2, "head_dim": 8,
				"dtype": "bfloat16"}); f.Class != worker.ClassUnsupportedConfig {
			t.Errorf("plain Python has no bfloat16: %+v", f)
		}
	}
	measure("", "float64", "plain_python")
	measure("torch", "bfloat16", "torch_sdpa")

	if got := string(hclwrite.Format([]byte(s.Plan))); got != s.Plan {
		t.Errorf("the plan is not in canonical form; it would be\n%s", got)
	}
}

func TestNamesOfSkeletons(t *testing.T) {
	for _, name := range []string{"", "Gemm", "2x", "a-b", "a b", "class", "lambda", "../x"} {
		if _, err := pyhost.Skeleton(name); err == nil {
			t.Errorf("Skeleton(%q) is no error", name)
		}
	}
	for name, file := range map[string]string{"torch": "torch_op.py", "my_op": "my_op.py", "op": "op_op.py"} {
		if s, err := pyhost.Skeleton(name); err != nil || s.File != file {
			t.Errorf("Skeleton(%q): file %q, %v; want %s", name, s.File, err, file)
		}
	}
}

// BenchmarkPipe is the engine's cost of one case: everything but the work.
func BenchmarkPipe(b *testing.B) {
	for _, window := range []int{1, 4} {
		b.Run("window="+strconv.Itoa(window), func(b *testing.B) {
			c, _ := start(b, basic(b, nil))
			c.rows("noop", m{}, nil)
			b.ResetTimer()
			for i := range b.N {
				c.submit("noop", m{}, nil)
				if i >= window-1 {
					c.await(c.seq - int64(window) + 1)
				}
			}
		})
	}
}
