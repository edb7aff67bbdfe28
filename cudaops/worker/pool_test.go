//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aicplan/cudaops/cpu"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/proc"
)

// TestMain turns the test binary into a worker where the engine starts it as
// one.
func TestMain(m *testing.M) {
	if os.Getenv(worker.EnvFDIn) == "" {
		if os.Getenv("TEST_ENGINE") != "" {
			engineThatIsKilled()
			return
		}
		os.Exit(m.Run())
	}
	if oddWorker(os.Getenv("TEST_WORKER")) {
		return
	}
	switch os.Getenv("TEST_WORKER") {
	case "dies":
		fmt.Fprintln(os.Stderr, "ImportError: libframework.so: cannot open shared object file")
		os.Exit(7)
	case "mute":
		_, _ = io.Copy(io.Discard, os.NewFile(3, "in"))
	case "alien":
		fmt.Fprintln(os.NewFile(4, "out"), `{"type":"hello","protocol":99,"version":"1"}`)
		_, _ = io.Copy(io.Discard, os.NewFile(3, "in"))
	case "warns":
		fmt.Fprintln(os.NewFile(4, "out"), `{"type":"log","level":"warn","text":"this Python has no torch"}`)
	case "babbles":
		fmt.Fprintln(os.NewFile(4, "out"), `Loading checkpoint shards: 100%`)
		_, _ = io.Copy(io.Discard, os.NewFile(3, "in"))
	}
	err := worker.Serve(context.Background(), func(i worker.Init) (worker.Host, error) {
		if os.Getenv("TEST_WORKER") == "broken" {
			return nil, &worker.Failure{Class: worker.ClassCollectorBug,
				Exception: "ModuleNotFoundError", Message: "No module named 'tensorrt_llm'"}
		}
		return cpu.Host(i), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testSlots describes n workers that are this test binary.
func testSlots(t *testing.T, n, window int, env ...string) []worker.Slot {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var slots []worker.Slot
	for i := range n {
		name := fmt.Sprintf("w%d", i)
		slots = append(slots, worker.Slot{Name: name, Device: -1, Spec: worker.Spec{
			Path: exe, Args: []string{"aicplan", "worker"}, Env: append(env, "GORACE=atexit_sleep_ms=0"), // else exits take a second under the race detector
			Init: worker.Init{
				Runtime: "test", Kind: "cpu",
				Options: map[string]any{"synthetic": true, "window": window},
			},
			LogPath: filepath.Join(dir, name+".log"), LogLimit: 1 << 20,
		}})
	}
	return slots
}

func newPool(t *testing.T, spec worker.PoolSpec) *worker.Pool {
	t.Helper()
	p := worker.NewPool(context.Background(), spec)
	t.Cleanup(func() {
		p.Close()
		// They were killed; on a busy machine the kernel takes a while to do it.
		for _, pid := range ownProcesses() {
			gone(t, pid)
		}
	})
	return p
}

// ownProcesses returns the processes of the trees that this test started.
func ownProcesses() []int {
	var out []int
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !regexp.MustCompile(fmt.Sprintf(`%s=[^/:]*:%d:`, proc.Variable, os.Getpid())).Match(environ) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		out = append(out, pid)
	}
	return out
}

// list is a source of given tasks that keeps every end.
type list struct {
	tasks []*worker.Task
	ends  []worker.Outcome
	onEnd func(worker.Outcome) *worker.Task // may make another task
}

func (l *list) Next() *worker.Task {
	if len(l.tasks) == 0 {
		return nil
	}
	t := l.tasks[0]
	l.tasks = l.tasks[1:]
	return t
}

func (l *list) Pending() int { return len(l.tasks) }

func (l *list) Done(o worker.Outcome) {
	l.ends = append(l.ends, o)
	if l.onEnd != nil {
		if t := l.onEnd(o); t != nil {
			l.tasks = append(l.tasks, t)
		}
	}
}

func (l *list) add(n int, fault string, deadline time.Duration) *worker.Task {
	params := fmt.Sprintf(`{"n":%d,"fault":%q}`, n, fault)
	t := &worker.Task{
		Case:     worker.Case{ID: fmt.Sprint(n), Op: "synthetic", Params: json.RawMessage(params), Attempt: 1},
		Deadline: deadline, Data: fault,
	}
	l.tasks = append(l.tasks, t)
	return t
}

func logTo(t *testing.T) func(slot, level, text string) {
	return func(slot, level, text string) { t.Logf("%s %s: %s", slot, level, text) }
}

const (
	long  = 2 * time.Minute
	short = 200 * time.Millisecond
)

func TestStartFailures(t *testing.T) {
	for _, c := range []struct {
		mode    string
		timeout time.Duration
		want    []string
	}{
		{"dies", long, []string{"exit status 7 before its hello", "libframework.so", "full log:"}},
		{"broken", long, []string{"No module named 'tensorrt_llm'"}},
		{"mute", short, []string{"no hello within 200ms"}},
		{"alien", long, []string{"version 99 of the worker protocol"}},
		{"babbles", long, []string{"Loading checkpoint shards"}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			slots := testSlots(t, 2, 1, "TEST_WORKER="+c.mode)
			for i := range slots {
				slots[i].Spec.HelloTimeout = c.timeout
			}
			pool := newPool(t, worker.PoolSpec{Slots: slots})
			src := &list{}
			for n := range 5 {
				src.add(n, "none", long)
			}
			err := pool.Run(t.Context(), worker.Settings{}, src)
			if !errors.Is(err, worker.ErrNoWorkers) || len(src.ends) != 0 {
				t.Fatalf("got %v and %d ends", err, len(src.ends))
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\ndoes not say %q", err, w)
				}
			}
			sf, ok := errors.AsType[*worker.StartFailure](err)
			if !ok || sf.Reported != (c.mode == "broken") {
				t.Errorf("%#v", sf)
			}
		})
	}
}

// TestSlowStart checks that a slow start is logged before its timeout, with what
// the user can do, and one that takes too long is not made again.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	slots := testSlots(t, 1, 1, "TEST_WORKER=mute")
	slots[0].Spec.SlowStart, slots[0].Spec.HelloTimeout, slots[0].Spec.StartHelp = time.Millisecond, short, "run it by hand"
	pool := newPool(t, worker.PoolSpec{Slots: slots})
	src := &list{}
	src.add(1, "none", long)
	var said []string
	err := pool.Run(t.Context(), worker.Settings{Log: func(_, level, text string) { said = append(said, level+" "+text) }},
		src)
	if sf, ok := errors.AsType[*worker.StartFailure](err); !ok || !sf.Late || sf.Failure.Class != worker.ClassTimeout ||
		!strings.Contains(sf.Failure.Message, "200ms; run it by hand") {
		t.Errorf("got %#v", err)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "warn slow start: not ready after 1ms, ") ||
		!strings.HasPrefix(said[1], "error ") {
		t.Fatalf("said %q", said)
	}
	for _, w := range []string{"up to 200ms (process ", ": aicplan worker); run it by hand"} {
		if !strings.Contains(said[0], w) {
			t.Errorf("%q does not say %q", said[0], w)
		}
	}
}

// TestLogBeforeHelloIsShown checks that lines which a worker logs while it starts are shown.
func TestLogBeforeHelloIsShown(t *testing.T) {
	t.Parallel()
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 1, 1, "TEST_WORKER=warns")})
	src := &list{}
	src.add(1, "none", long)
	var said []string
	if err := pool.Run(t.Context(), worker.Settings{Log: func(_, level,
		text string) {
		said = append(said, level+" "+text)
	}}, src); err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 || said[0] != "warn this Python has no torch" || len(src.ends) != 1 || src.ends[0].Failure != nil {
		t.Errorf("said %q, ends %+v", said, src.ends)
	}
}

func TestNoSuchProgram(t *testing.T) {
	slots := testSlots(t, 1, 1)
	slots[0].Spec.Path = filepath.Join(t.TempDir(), "python9")
	pool := newPool(t, worker.PoolSpec{Slots: slots})
	src := &list{}
	src.add(1, "none", long)
	err := pool.Run(t.Context(), worker.Settings{}, src)
	if !errors.Is(err, worker.ErrNoWorkers) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestWarmPoolAndSettings(t *testing.T) {
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 1, 1)})
	pids := map[int]bool{}
	ups := 0
	for i, configure := range []worker.Configure{
		{}, {}, {Measure: json.RawMessage(`{"passes":3,"max_passes":9}`)},
		{Measure: json.RawMessage(`{"passes":3,"max_passes":9}`), Seed: 2},
	} {
		src := &list{}
		src.add(i, "none", long)
		set := worker.Settings{Configure: configure}
		set.Log = func(_, level, text string) {
			if strings.HasPrefix(text, "worker up") {
				ups++
			}
		}
		if err := pool.Run(t.Context(), set, src); err != nil {
			t.Fatal(err)
		}
		if len(src.ends) != 1 || src.ends[0].Failure != nil {
			t.Fatalf("run %d: %+v", i, src.ends)
		}
		pids[src.ends[0].Hello.Pid] = true
		if src.ends[0].Fresh != (i == 0) {
			t.Errorf("run %d: fresh is %v", i, src.ends[0].Fresh)
		}
	}
	if ups != 1 || len(pids) != 1 {
		t.Errorf("%d starts, processes %v: the worker was not kept", ups, pids)
	}
	// A worker that rejects its settings is replaced, and the new one reports the reason.
	src := &list{}
	src.add(9, "none", long)
	err := pool.Run(t.Context(), worker.Settings{Configure: worker.Configure{Measure: json.RawMessage(`{"passes":0}`)}},
		src)
	if !errors.Is(err, worker.ErrNoWorkers) || !strings.Contains(err.Error(), "passes is 0") {
		t.Errorf("got %v", err)
	}
}

func TestUp(t *testing.T) {
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 3, 1)})
	starts := 0
	set := worker.Settings{Log: func(_, _, text string) {
		if strings.HasPrefix(text, "worker up") {
			starts++
		}
	}}
	hello, _, err := pool.Up(t.Context(), set, 1, "")
	if err != nil || hello.Framework != "CPU" || hello.Pid == 0 {
		t.Fatalf("%+v, %v", hello, err)
	}
	src := &list{}
	src.add(1, "none", long)
	if err := pool.Run(t.Context(), set, src); err != nil {
		t.Fatal(err)
	}
	if starts != 1 || src.ends[0].Hello.Pid != hello.Pid {
		t.Errorf("%d workers were started for one task", starts)
	}
	// Other settings reach a warm worker before it is reported.
	if _, _, err := pool.Up(t.Context(), worker.Settings{Configure: worker.Configure{Seed: 5}}, 1, ""); err != nil {
		t.Error(err)
	}
}

func TestUpFails(t *testing.T) {
	bad := newPool(t, worker.PoolSpec{Slots: testSlots(t, 1, 1, "TEST_WORKER=broken")})
	if _, _, err := bad.Up(t.Context(), worker.Settings{}, 1, ""); !errors.Is(err, worker.ErrNoWorkers) {
		t.Errorf("got %v", err)
	}
}

func TestRecycle(t *testing.T) {
	processes := func(spec worker.PoolSpec, fault string, n int) int {
		pool := newPool(t, spec)
		defer pool.Close()
		src := &list{}
		for i := range n {
			src.add(i, fault, long)
		}
		if err := pool.Run(t.Context(), worker.Settings{Log: logTo(t)}, src); err != nil {
			t.Fatal(err)
		}
		pids := map[int]bool{}
		for _, o := range src.ends {
			if o.Failure != nil {
				t.Errorf("case %s: %+v", o.Task.Case.ID, o.Failure)
			}
			pids[o.Hello.Pid] = true
		}
		if len(src.ends) != n {
			t.Errorf("%d ends of %d", len(src.ends), n)
		}
		return len(pids)
	}
	if got := processes(worker.PoolSpec{Slots: testSlots(t, 1, 1), RecycleAfter: 4}, "none", 10); got != 3 {
		t.Errorf("10 cases, 4 a process: %d processes, want 3", got)
	}
	if got := processes(worker.PoolSpec{Slots: testSlots(t, 1, 3), RecycleAfter: 4}, "none", 10); got < 2 || got > 3 {
		t.Errorf("10 cases, 4 a process, window 3: %d processes", got)
	}
	// Every case leaks 64 MiB: the third is 128 MiB above the first.
	if got := processes(worker.PoolSpec{Slots: testSlots(t, 1, 1), MaxGrowth: 100 << 20}, "leak", 6); got < 2 || got > 3 {
		t.Errorf("6 leaking cases: %d processes, want 2 or 3", got)
	}
}

func TestFreshTasks(t *testing.T) {
	for _, devices := range [][]int{{-1}, {-1, -1}, {0, 0}, {0, 1}} {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			slots := testSlots(t, len(devices), 1)
			for i, d := range devices {
				slots[i].Device = d
			}
			var cleaned atomic.Int32
			pool := newPool(t, worker.PoolSpec{Slots: slots, CleanDevice: func(context.Context, worker.Slot) error {
				cleaned.Add(1)
				return nil
			}})
			src := &list{}
			for n := range 20 {
				src.add(n, "none", long)
			}
			for n := 100; n < 103; n++ {
				src.add(n, "oom", long)
			}
			// An OOM is tried again on a fresh process, which makes more of the
			// ordinary work as well.
			src.onEnd = func(o worker.Outcome) *worker.Task {
				if o.Failure == nil || o.Task.Fresh {
					return nil
				}
				again := *o.Task
				again.Fresh = true
				src.add(200+len(src.ends), "none", long)
				return &again
			}
			if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
				t.Fatal(err)
			}
			fresh := 0
			for _, o := range src.ends {
				if o.Task.Fresh {
					fresh++
					if !o.Fresh {
						t.Errorf("case %s got a used process", o.Task.Case.ID)
					}
				}
			}
			if cleaned.Load() < 3 {
				t.Errorf("the device was looked at %d times", cleaned.Load())
			}
			if fresh != 3 || len(src.ends) != 20+3+3+3 {
				t.Errorf("%d fresh, %d ends", fresh, len(src.ends))
			}
		})
	}
}

func TestDirtyDevice(t *testing.T) {
	slots := testSlots(t, 1, 1)
	pool := newPool(t, worker.PoolSpec{Slots: slots, CleanDevice: func(context.Context, worker.Slot) error {
		return errors.New("process 4711 holds 70 GiB")
	}})
	src := &list{}
	src.add(1, "killed", long)
	src.add(2, "none", long)
	err := pool.Run(t.Context(), worker.Settings{}, src)
	if !errors.Is(err, worker.ErrNoWorkers) || !strings.Contains(err.Error(), "process 4711 holds 70 GiB") {
		t.Errorf("got %v", err)
	}
	if len(src.ends) != 1 {
		t.Errorf("%d ends", len(src.ends))
	}
}

func TestStopAndCancel(t *testing.T) {
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 1, 1)})
	ctx, cancel := context.WithCancel(t.Context())
	src := &list{}
	for n := range 3 {
		src.add(n, "none", long)
	}
	src.add(3, "hang", long)
	src.onEnd = func(o worker.Outcome) *worker.Task {
		if o.Task.Case.ID == "2" {
			// The hanging case is the next one; only the context can end it.
			cancel()
		}
		return nil
	}
	if err := pool.Run(ctx, worker.Settings{}, src); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(src.ends) != 3 {
		t.Errorf("%d ends", len(src.ends))
	}
	// The pool is still usable: a killed worker is replaced.
	src = &list{}
	src.add(7, "none", long)
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil || len(src.ends) != 1 ||
		src.ends[0].Failure != nil {
		t.Errorf("after a cancelled run: %v, %+v", err, src.ends)
	}
}

func TestLogIsCapped(t *testing.T) {
	slots := testSlots(t, 1, 1)
	pool := newPool(t, worker.PoolSpec{Slots: slots})
	src := &list{}
	src.add(1, "print", long)
	src.add(2, "none", long)
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	text, err := os.ReadFile(slots[0].Spec.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1<<20+4096 {
		t.Errorf("the log has %d bytes", len(text))
	}
	for _, want := range []string{"worker w0 starts", "the log has reached its limit", "bytes were dropped",
		"worker w0 ended: exit status 0"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log does not say %q; it ends with %q", want, text[max(0, len(text)-500):])
		}
	}
	for _, o := range src.ends {
		if o.Failure != nil {
			t.Errorf("%+v", o.Failure)
		}
	}
}

func BenchmarkCase(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	pool := worker.NewPool(b.Context(), worker.PoolSpec{Slots: []worker.Slot{{Name: "w0", Device: -1, Spec: worker.Spec{
		Path: exe, Init: worker.Init{Kind: "cpu", Options: map[string]any{"synthetic": true, "window": 4}},
	}}}})
	defer pool.Close()
	src := &list{}
	src.add(0, "none", long)
	if err := pool.Run(b.Context(), worker.Settings{}, src); err != nil {
		b.Fatal(err)
	}
	src = &list{}
	for n := range b.N {
		src.add(n, "none", long)
	}
	b.ResetTimer()
	if err := pool.Run(b.Context(), worker.Settings{}, src); err != nil {
		b.Fatal(err)
	}
	if len(src.ends) != b.N {
		b.Fatalf("%d ends of %d", len(src.ends), b.N)
	}
}

// TestAhead: a worker that takes one case ahead leaves the others to a faster one.
func TestAhead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	src := &list{}
	src.add(0, "waits", long)
	for n := 1; n < 11; n++ {
		src.add(n, "none", long)
	}
	src.add(11, "wakes", long)

	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 2, 1, "TEST_WORKER=ahead", "TEST_PIPE="+pipe)})
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	slow, byWorker := "", map[string]int{}
	for _, o := range src.ends {
		if o.Failure != nil {
			t.Fatalf("%+v", o.Failure)
		}
		byWorker[o.Slot]++
		if o.Task.Case.ID == "0" {
			slow = o.Slot
		}
	}
	if n := byWorker[slow]; n > 2 || len(src.ends) != 12 {
		t.Errorf("the slow worker ran %d of %d cases", n, len(src.ends))
	}
}

// TestCasesOfWorkersThatStart: a worker that is up leaves the others their share of a few cases.
func TestCasesOfWorkersThatStart(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	for _, name := range []string{pipe, pipe + "2"} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	src := &list{}
	for n := range 3 {
		src.add(n, "none", long)
	}
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 2, 1, "TEST_WORKER=batch", "TEST_PIPE="+pipe)})
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	byWorker := map[string]int{}
	for _, o := range src.ends {
		byWorker[o.Slot]++
	}
	if byWorker["w0"] != 2 || byWorker["w1"] != 1 {
		t.Errorf("the workers ran %v", byWorker)
	}
}

// TestLateSlots: a late slot gets a worker if the waiting cases would take the others long, or if no other slot
// can have one.
func TestLateSlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		path  string // of the program of the first slot
		late  bool
	}{
		{"short", time.Hour, "", false},
		{"long", time.Nanosecond, "", true},
		{"none", time.Hour, "/no/such/program", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			slots := testSlots(t, 2, 1)
			slots[1].Late = true
			if c.path != "" {
				slots[0].Spec.Path = c.path
			}
			src := &list{}
			for n := range 40 {
				src.add(n, "none", long)
			}
			used := false
			src.onEnd = func(o worker.Outcome) *worker.Task {
				if used = used || o.Slot == "w1"; c.late && !used {
					src.add(40+len(src.ends), "none", long) // until the late one has started
				}
				return nil
			}
			pool := newPool(t, worker.PoolSpec{Slots: slots, LateAfter: c.after})
			if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
				t.Fatal(err)
			}
			if used != c.late {
				t.Errorf("the late slot was used: %t", used)
			}
		})
	}
}

// TestLateSlotsOfFailedStarts: late slots start no workers if all others report why they cannot start, or hang.
func TestLateSlotsOfFailedStarts(t *testing.T) {
	for mode, timeout := range map[string]time.Duration{"broken": long, "mute": short} {
		slots := testSlots(t, 2, 1, "TEST_WORKER="+mode)
		slots[0].Spec.HelloTimeout, slots[1].Spec.HelloTimeout, slots[1].Late = timeout, timeout, true
		_, _, err := newPool(t, worker.PoolSpec{Slots: slots}).Up(t.Context(), worker.Settings{}, 9, "")
		if !errors.Is(err, worker.ErrNoWorkers) {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := os.Stat(slots[1].Spec.LogPath); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the late slot was started: %v", mode, err)
		}
	}
}
