package pyhost_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// fault is one thing that an op may do to its worker, and the result that must follow.
type fault struct {
	count     int
	cause     worker.Cause
	class     string // where the worker itself names one
	exception string // part of the exception's name
}

var faults = map[string]fault{
	"raises":                {14, worker.CauseReported, "", "ValueError"},
	"raises_not_utf8":       {10, worker.CauseReported, "", "RuntimeError"},
	"returns_none":          {10, worker.CauseReported, worker.ClassCollectorBug, "HostError"},
	"wrong_columns":         {10, worker.CauseReported, worker.ClassCollectorBug, "HostError"},
	"wrong_type":            {10, worker.CauseReported, worker.ClassCollectorBug, "HostError"},
	"bytes_not_utf8":        {10, worker.CauseReported, worker.ClassCollectorBug, "HostError"},
	"sys_exit_0":            {10, worker.CauseReported, worker.ClassCollectorBug, "SystemExit"},
	"sys_exit_10":           {10, worker.CauseReported, worker.ClassCollectorBug, "SystemExit"},
	"returns_nan":           {10, worker.CauseNone, "", ""},
	"returns_inf":           {10, worker.CauseNone, "", ""},
	"segfaults":             {10, worker.CauseDied, "", "SIGSEGV"},
	"aborts":                {10, worker.CauseDied, "", "SIGABRT"},
	"exits_0":               {10, worker.CauseDied, "", ""},
	"exits_10":              {10, worker.CauseDied, "", "exit status 10"},
	"garbage_on_the_pipe":   {10, worker.CauseGarbage, "", "ProtocolError"},
	"rows_after_its_result": {10, worker.CauseNone, "", ""},
	"leaks_memory":          {40, worker.CauseNone, "", ""},
	"forks_children":        {8, worker.CauseNone, "", ""},
	"hangs":                 {4, worker.CauseHung, "", ""},
	"hangs_in_c":            {2, worker.CauseHung, "", ""},
	"prints_100_mb":         {2, worker.CauseNone, "", ""},
}

// list is a source that hands out tasks once and keeps their ends.
type list struct {
	tasks []*worker.Task
	ends  map[string]worker.Outcome
	twice []string
}

func (l *list) Pending() int { return len(l.tasks) }

func (l *list) Next() *worker.Task {
	if len(l.tasks) == 0 {
		return nil
	}
	t := l.tasks[0]
	l.tasks = l.tasks[1:]
	return t
}

func (l *list) Done(o worker.Outcome) {
	if _, ok := l.ends[o.Task.Case.ID]; ok {
		l.twice = append(l.twice, o.Task.Case.ID)
	}
	l.ends[o.Task.Case.ID] = o
}

// TestTorture runs a hundred cases (two hundred in make test-all) of which every
// fifth mistreats its worker, each fault at least once: each ends as its fault requires, and every other one is
// measured. AICPLAN_TEST_LONG=1 runs a thousand.
func TestTorture(t *testing.T) {
	t.Parallel()
	scale := 5
	switch {
	case os.Getenv("AICPLAN_TEST_LONG") != "":
		scale = 1
	case testing.Short() || !testutil.All():
		scale = 10
	}
	var kinds []string
	for kind, f := range faults {
		for range (f.count + scale - 1) / scale {
			kinds = append(kinds, kind)
		}
	}
	want := 1000 / scale
	for len(kinds) < want {
		kinds = append(kinds, "works")
	}
	rand.New(rand.NewPCG(5, 6)).Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })

	src := &list{ends: map[string]worker.Outcome{}}
	for i, kind := range kinds {
		task := &worker.Task{Deadline: time.Minute, Data: kind, Case: worker.Case{
			ID: fmt.Sprintf("%s-%d", kind, i), Op: "torture", Params: raw(t, m{"kind": kind, "i": i}),
		}}
		if strings.HasPrefix(kind, "hangs") {
			task.Deadline = time.Second
		}
		src.tasks = append(src.tasks, task)
	}
	var mu sync.Mutex
	var log []string
	pool := worker.NewPool(t.Context(), worker.PoolSpec{Slots: tortureSlots(t), MaxGrowth: 20 << 20})
	err := pool.Run(t.Context(), worker.Settings{Log: func(slot, level, text string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, slot+" "+level+" "+text)
	}}, src)
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()

	if len(src.ends) != len(kinds) || len(src.twice) > 0 {
		t.Fatalf("%d ends for %d cases, twice: %v", len(src.ends), len(kinds), src.twice)
	}
	measured := 0
	for _, o := range src.ends {
		kind := o.Task.Data.(string)
		checkEnd(t, kind, o)
		if kind == "works" && o.Failure == nil {
			measured++
		}
		if kind == "forks_children" && o.Failure == nil {
			checkGone(t, o.Rows[0]["children"].(string))
		}
	}
	t.Logf("%d cases, %d of them sane and measured", len(kinds), measured)
	all := strings.Join(log, "\n")
	for _, part := range []string{"memory has grown", "which it was not given"} {
		if scale < 10 && !strings.Contains(all, part) {
			t.Errorf("the pool's log lacks %q", part)
		}
	}
}

func tortureSlots(t *testing.T) []worker.Slot {
	path, args, err := pyhost.Command(python(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	var slots []worker.Slot
	for _, name := range []string{"w0", "w1"} {
		slots = append(slots, worker.Slot{Name: name, Device: -1, Spec: worker.Spec{
			Path: path, Args: append([]string{path}, args...),
			Env:     []string{"PYTHONDONTWRITEBYTECODE=1"},
			LogPath: filepath.Join(logs, name+".log"), LogLimit: 4 << 20,
			Init: worker.Init{
				Kind: "python", Options: hostSettings{Path: []string{testdata(t, "ops", "torture.py")}}.Options(nil),
			},
		}})
	}
	return slots
}

func checkEnd(t *testing.T, kind string, o worker.Outcome) {
	t.Helper()
	f := faults[kind] // the zero value: measured
	if o.Cause != f.cause {
		t.Errorf("%s: cause %v, want %v (%+v)", o.Task.Case.ID, o.Cause, f.cause, o.Failure)
		return
	}
	if f.cause == worker.CauseNone {
		row := o.Rows[0]
		want := map[string]string{"returns_nan": "NaN", "returns_inf": "Infinity"}[kind]
		if want == "" {
			want = "0.5"
		}
		if len(o.Rows) != 1 || fmt.Sprint(row["latency"]) != want {
			t.Errorf("%s: rows %v, want the latency %s", o.Task.Case.ID, o.Rows, want)
		}
		if id := strings.TrimPrefix(o.Task.Case.ID, kind+"-"); fmt.Sprint(row["echo"]) != id {
			t.Errorf("%s: the row is another case's: %v", o.Task.Case.ID, row)
		}
		return
	}
	if o.Failure == nil || !strings.Contains(o.Failure.Exception, f.exception) ||
		o.Failure.Class != f.class && f.cause == worker.CauseReported {
		t.Errorf("%s: %+v, want class %q and %q", o.Task.Case.ID, o.Failure, f.class, f.exception)
	}
}

// checkGone reports the processes that an op left behind. They
// have been killed; the wait is for the kernel to do it.
func checkGone(t *testing.T, pids string) {
	t.Helper()
	for _, text := range strings.Fields(pids) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // gone altogether
		}
		n, err := 0, error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		}
		unix.Close(fd)
		if err != nil || n == 0 {
			t.Errorf("process %d of an op is still there (%v)", pid, err)
		}
	}
}
