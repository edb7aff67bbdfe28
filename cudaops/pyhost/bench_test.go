package pyhost_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aicplan/cudaops/instrument"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/pyhost"
	"aicplan/cudaops/worker"
)

// benched is a collector that works for 0.3 ms before its measurement and 0.1 ms after it.
const benched = `
import time
import torch
from helper import benchmark_with_power, log_perf

def work(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass

def run(us, watts, perf_filename, device):
    torch.mark("run")
    work(300e-6)
    memory = torch.Memory(1 << 20)
    torch.mark("enter")
    with benchmark_with_power(device=device, kernel_func=lambda: torch.kernel(us * 1e-6, watts)) as got:
        torch.mark("yield")
        log_perf(item_list=[{"latency": got["latency_ms"]}], perf_filename=perf_filename)
    work(100e-6)
    torch.mark("leave")
`

// moment is a message between the engine and a worker, or a line of the fake GPU's log.
type moment struct {
	at      int64 // ns
	what    string
	visit   bool    // it is a command for one
	numbers []int64 // of a line: begin of what was waited for, and ns of work
}

// observed notes when messages to and from a worker pass.
type observed struct {
	worker.Measurer
	mu  *sync.Mutex
	all *[]moment
}

func (o *observed) note(prefix string, line []byte) {
	var msg struct {
		What string `json:"what"`
		Busy bool   `json:"busy"`
	}
	now := moment{at: time.Now().UnixNano()}
	if err := json.Unmarshal(line, &msg); err != nil {
		panic(err)
	}
	now.what, now.visit = prefix+msg.What, msg.What == "burst" && !msg.Busy
	o.mu.Lock()
	defer o.mu.Unlock()
	*o.all = append(*o.all, now)
}

func (o *observed) Receive(line []byte) (bool, error) {
	o.note("from ", line)
	return o.Measurer.Receive(line)
}

// supply is a source of cases that counts those that failed.
type supply struct {
	tasks  []*worker.Task
	failed []string
}

func (s *supply) Pending() int { return len(s.tasks) }

func (s *supply) Next() *worker.Task {
	if len(s.tasks) == 0 {
		return nil
	}
	t := s.tasks[0]
	s.tasks = s.tasks[1:]
	return t
}

func (s *supply) Done(o worker.Outcome) {
	if o.Failure != nil {
		s.failed = append(s.failed, o.Failure.Message)
	}
}

// BenchmarkHosted measures what a case of a hosted collector costs beside the collector and the GPU: of a visit that is
// not held by the power cap, the time from its command to the first call of the GPU, from there to the end of the GPU's
// work without that work, from the end to the reply, and from a reply to the next command; of a case that is prepared,
// the time from its command to the collector, that of its measurement, and from its return to the next status. The fake
// GPU takes real time, and each call of it 5 us.
func BenchmarkHosted(b *testing.B) {
	interpreter := python(b)
	fake := testdata(b, "fakegpu")
	root := b.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "collector", "vllm"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "collector", "vllm", "some.py"), []byte(benched), 0o644); err != nil {
		b.Fatal(err)
	}
	path, args, err := pyhost.Command(interpreter, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ops := json.RawMessage(`{"x": {"module": "collector.vllm.some", "run": "run", "perf_filename": "x_perf.txt",
		"args": ["us", "watts"]}}`)
	options := hostSettings{Package: "torch", CollectorRoot: root}.Options(map[string]any{})

	const cases = 120
	for _, processes := range []int{1, 2} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			costs := cost{}
			for b.Loop() {
				in := instrument.New(instrument.Options{Device: func(string) (nvml.Device, error) { return nil, nvml.ErrNotBuilt }})
				var mu sync.Mutex
				moments := make([][]moment, processes)
				logs, slots := make([]string, processes), make([]worker.Slot, processes)
				for i := range processes {
					dir := b.TempDir()
					logs[i] = filepath.Join(dir, "gpu.log")
					slots[i] = worker.Slot{Name: fmt.Sprintf("w%d", i), Spec: worker.Spec{
						Path: path, Args: args, LogPath: filepath.Join(dir, "log"),
						Env:  []string{"PYTHONPATH=" + fake, fmt.Sprintf(`FAKE_GPU={"memory": 1073741824, "log": %q}`, logs[i])},
						Init: worker.Init{Kind: "python", Options: options},
						Instrument: func(send func(any) error) worker.Measurer {
							o := &observed{mu: &mu, all: &moments[i]}
							o.Measurer = in.Join(func(msg any) error {
								line, err := json.Marshal(msg)
								if err == nil {
									o.note("to ", line)
								}
								return send(msg)
							})
							return o
						},
					}}
				}
				src := &supply{}
				for i := range cases {
					watts := 100
					if i%4 == 3 {
						watts = 600 // held by the power cap
					}
					params := fmt.Sprintf(`{"us": %d, "watts": %d}`, 5+3*i, watts)
					src.tasks = append(src.tasks, &worker.Task{Case: worker.Case{ID: fmt.Sprint(i), Op: "x", Params: json.RawMessage(params)}})
				}
				pool := worker.NewPool(b.Context(), worker.PoolSpec{Slots: slots})
				set := worker.Settings{Configure: worker.Configure{Ops: ops}}
				if _, _, err := pool.Up(b.Context(), set, cases, ""); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if err := pool.Run(b.Context(), set, src); err != nil {
					b.Fatal(err)
				}
				costs.add("case", time.Since(began).Nanoseconds()/cases)
				pool.Close()
				if len(src.failed) > 0 {
					b.Fatalf("%d cases failed: %s", len(src.failed), src.failed[0])
				}
				for i, of := range moments {
					costs.worker(append(of, logged(b, logs[i])...))
				}
				costs.engine(slices.Concat(moments...))
			}
			for name, of := range costs {
				b.ReportMetric(measure.Median(of), "us/"+name) // other programs disturb some of them
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// logged reads the log of a fake GPU.
func logged(b *testing.B, path string) (out []moment) {
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		m := moment{numbers: make([]int64, 2)}
		if n, err := fmt.Sscan(line, &m.what, &m.at, &m.numbers[0], &m.numbers[1]); n < 2 {
			b.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// cost is microseconds by name.
type cost map[string][]float64

func (c cost) add(name string, ns int64) {
	c[name] = append(c[name], float64(ns)/1e3)
}

func inOrder(of []moment) []moment {
	slices.SortStableFunc(of, func(a, b moment) int { return int(a.at - b.at) })
	return of
}

// engine adds the time between a reply and the command of the next visit.
func (c cost) engine(of []moment) {
	of = inOrder(of)
	for i, m := range of[1:] {
		if m.visit && of[i].what == "from reply" {
			c.add("visit-between", m.at-of[i].at)
		}
	}
}

// worker adds the other times of one worker.
func (c cost) worker(of []moment) {
	var visit moment
	var first, ended, busy, entered, left, next int64
	for _, m := range inOrder(of) {
		switch m.what {
		case "to burst":
			visit, first, busy = m, 0, 0
		case "wait":
			if first == 0 {
				first = m.numbers[0]
			}
			ended, busy = m.at, busy+m.numbers[1]
		case "from reply":
			if visit.visit && first > 0 {
				c.add("visit-command", first-visit.at)
				c.add("visit-queue", ended-first-busy)
				c.add("visit-gpu", busy)
				c.add("visit-reply", m.at-ended)
				c.add("visit", m.at-visit.at)
			}
			visit.visit = false
		case "to next":
			next, left = m.at, 0
		case "run":
			c.add("case-begin", m.at-next)
		case "enter":
			entered, busy = m.at, 0
		case "yield":
			c.add("case-prepare", m.at-entered-busy)
		case "leave":
			left = m.at
		case "from ready":
			if left > 0 {
				c.add("case-return", m.at-left)
			}
			left = 0
		}
	}
}
