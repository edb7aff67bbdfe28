package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// heavy are large runs: what they need must not grow with what they do.
func heavy() []*fault {
	return []*fault{
		{name: "load: 200 readers of serve during an apply", none: true, do: manyReaders},
		{name: "load: 64 workers, SIGKILL group", long: true, do: func(t *trial) {
			t.with(wide, signalled(syscall.SIGKILL, true))
		}},
		{name: "load: a million cases, SIGKILL group half-way", long: true, once: true, none: true, do: million},
		{name: "load: as many cases as eight hours have: recycling, retries, logs", long: true, once: true, none: true, do: eightHours},
	}
}

var wide = &scene{name: "64 workers", digest: files("g_perf.txt"), plan: `
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  workers   = 64
  synthetic = true
}
grid "g" {
  op = "synthetic"
  axis "a" { values = range(640) }
  axis "delay_ms" { values = [50] }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.cpu
}
export "g" {
  input = collect.g
  file  = "g_perf.txt"
}
`}

var serving = regexp.MustCompile(`Serving http://([^/]+)/`)

// manyReaders has 200 clients follow one run to its end.
func manyReaders(t *trial) {
	const readers = 200
	s := t.serve("serve", "-listen", "127.0.0.1:0")
	defer func() {
		s.signal(syscall.SIGTERM, false)
		if code := s.wait(); code != 0 {
			t.wrong("serve ends with %d: %s", code, clip(s.out.String()))
		}
	}()
	// The state folder comes with the first run.
	if !s.until(func() bool { return serving.MatchString(s.out.String()) }) {
		t.wrong("serve does not start: %s", clip(s.out.String()))
		return
	}
	base := "http://" + serving.FindStringSubmatch(s.out.String())[1]
	before := s.descriptors()
	r := t.start(t.words()...)
	r.writing()
	runs, _ := os.ReadDir(filepath.Join(t.state(), "runs"))
	if len(runs) != 1 {
		t.wrong("%d runs during the first", len(runs))
		return
	}
	var ended, opened atomic.Int64
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: 1}}
	for range readers {
		wg.Go(func() {
			resp, err := client.Get(base + "/api/runs/" + runs[0].Name() + "/stream")
			if err != nil {
				return
			}
			defer resp.Body.Close()
			opened.Add(1)
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"exit_code"`) || strings.Contains(lines.Text(), "event: end") {
					ended.Add(1)
					return
				}
			}
		})
	}
	if code := r.wait(); code != 0 {
		t.wrong("the apply ends with %d: %s", code, clip(r.out.String()))
	}
	wg.Wait()
	client.CloseIdleConnections()
	if opened.Load() != readers || ended.Load() != readers {
		t.wrong("of %d readers %d were served and %d saw the end", readers, opened.Load(), ended.Load())
	}
	s.until(func() bool { return s.descriptors() <= before+8 })
	t.note = fmt.Sprintf("serve had at most %d MB", s.peak()>>20)
	if s.peak() > 400<<20 {
		t.wrong("serve took %d MB for %d readers", s.peak()>>20, readers)
	}
}

// large is summary with thousands apart.
var large = regexp.MustCompile(`Apply: ([0-9,]+) measured, ([0-9,]+) reused`)

// million has a million cases, is killed and goes on.
func million(t *trial) {
	plan := strings.NewReplacer(`range(var.size)`, `range(1000)`, `values = range(2)`, `values = range(1000)`, `[4]`, `[0]`, `"csv"`, `"text"`).Replace(thePlan)
	t.write("plan.hcl", plan)
	const all = 1_000_000
	r := t.start(t.words()...)
	half := t.random.Int64N(200<<20) + 50<<20
	r.journalled(half)
	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.acked = t.acknowledged()
	r = t.start(t.words()...)
	if code := r.wait(); code != 0 {
		t.wrong("apply of %d cases ends with %d: %s", all, code, clip(r.out.String()))
	}
	used := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.note = fmt.Sprintf("killed with %d rows, then %d MB and %s of CPU time", t.acked, used.Maxrss>>10, r.cmd.ProcessState.UserTime().Round(1e9))
	m := large.FindStringSubmatch(r.out.String())
	if m == nil || strings.ReplaceAll(m[1], ",", "") != strconv.Itoa(all-t.acked) {
		t.wrong("%d rows were there, and then: %v", t.acked, m)
	}
	if used.Maxrss>>10 > 4096 {
		t.wrong("the engine took %d MB", used.Maxrss>>10)
	}
	if n := t.acknowledged(); n != all {
		t.wrong("%d rows in the end, want %d", n, all)
	}
	if out, code := t.status("ckpt", "verify"); code != 0 {
		t.wrong("ckpt verify ends with %d: %s", code, clip(out))
	}
}

// eightHours runs as many cases as a run of eight hours at two a second, one
// after the other: workers are replaced, cases fail once and are tried again,
// workers print. The engine's memory, descriptors and threads stay as they were
// after a quarter.
func eightHours(t *trial) {
	t.write("ops.py", `
import os

def op(m, n, bench):
    print("case %d %d: %s" % (m, n, "x" * 600))
    once = "again/%d-%d" % (m, n)
    if (m + n) % 50 == 0 and not os.path.exists(once):
        open(once, "w").close()
        raise ConnectionResetError("passing trouble")
    return {"latency": 1.0 + m, "kernel_source": "x"}
`)
	if err := os.MkdirAll(filepath.Join(t.dir, "again"), 0o755); err != nil {
		t.wrong("%v", err)
	}
	const side = 240 // two a second
	const all = side * side
	t.write("plan.hcl", fmt.Sprintf(`
runtime "py" {
  kind          = "python"
  framework     = "TRY"
  device        = "cpu"
  workers       = 2
  path          = ["ops.py"]
  workdir       = "."
  recycle_after = 2000
}
grid "p" {
  op = "op"
  axis "m" { values = range(%d) }
  axis "n" { values = range(%d) }
}
collect "p" {
  grid    = grid.p
  runtime = runtime.py
}
export "p" {
  input = collect.p
  file  = "p_perf.txt"
}
`, side, side))
	r := t.start(t.words()...)
	var at [2]usage
	const row = 250 // bytes of the journal, about
	for i, share := range []int64{all / 4 * row, all * 8 / 10 * row} {
		r.polled(func() bool { return t.journalSize() >= share })
		at[i] = r.usage()
	}
	if code := r.wait(); code != 0 {
		t.wrong("apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.note = fmt.Sprintf("%d cases; after a quarter %s, near the end %s", all, at[0], at[1])
	if at[0].memory == 0 || at[1].memory == 0 {
		t.wrong("the engine was not looked at")
	}
	if at[1].memory > at[0].memory*3/2+64<<20 || at[1].descriptors > at[0].descriptors+10 || at[1].threads > at[0].threads+10 {
		t.wrong("the engine grew: %s", t.note)
	}
	if n := t.acknowledged(); n != all {
		t.wrong("%d rows, want %d", n, all)
	}
	for _, path := range t.files(".aicplan/runs") {
		if info, err := os.Stat(path); err == nil && info.Size() > 64<<20 {
			t.wrong("%s has %d MB", filepath.Base(path), info.Size()>>20)
		}
	}
}

// usage is what a process holds.
type usage struct {
	memory               int64
	descriptors, threads int
}

func (u usage) String() string {
	return fmt.Sprintf("%d MB, %d descriptors, %d threads", u.memory>>20, u.descriptors, u.threads)
}

func (r *running) usage() usage {
	return usage{memory: r.field("VmRSS:") << 10, descriptors: r.descriptors(), threads: int(r.field("Threads:"))}
}

func (r *running) descriptors() int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid))
	return len(list)
}

// peak is the most memory that the process ever had.
func (r *running) peak() int64 { return r.field("VmHWM:") << 10 }

// field is a number of /proc/PID/status.
func (r *running) field(name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(text), name)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(words[0], 10, 64)
	return n
}
