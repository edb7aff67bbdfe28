package ops

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/sink/base/proc"
)

// monitor reads NVML during the measurement a few times per second. NVML refreshes its values
// every 100 ms.
type monitor struct {
	dev  nvml.Device
	now  func() time.Duration
	own  func(pid int) bool // processes that belong to this run
	mu   sync.Mutex
	seen []reading
}

// reading is one reading of the device, or the summary of several.
type reading struct {
	at      time.Duration
	highest map[string]int // by column, without unknown values
	reasons nvml.Reasons
	asked   bool // reasons is known
}

const (
	monitorPeriod = 200 * time.Millisecond
	monitorKeep   = 4096
)

func newMonitor(dev nvml.Device, now func() time.Duration) *monitor {
	return &monitor{dev: dev, now: now, own: ours}
}

// ours reports whether a process belongs to aicplan: it runs the same executable, or it was
// started by a worker of this or another run.
func ours(pid int) bool {
	if pid == os.Getpid() || proc.Marked(pid) {
		return true
	}

	mine, err := os.Executable()
	if err != nil {
		return false
	}

	exe, err := filepath.EvalSymlinks("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && exe == mine
}

// run polls until stop is closed.
func (m *monitor) run(stop <-chan struct{}) {
	t := time.NewTicker(monitorPeriod)
	defer t.Stop()
	for {
		m.poll()
		select {
		case <-t.C:
		case <-stop:
			return
		}
	}
}

// poll takes one reading.
func (m *monitor) poll() {
	r := reading{at: m.now(), highest: map[string]int{}}
	if t, err := m.dev.Temperature(); err == nil {
		r.highest["temperature_c"] = t.GPU
	}

	if why, err := m.dev.Reasons(); err == nil {
		r.reasons, r.asked = why, true
	}

	if c, err := m.dev.Clocks(); err == nil && c.Memory > 0 {
		r.highest["mem_clock_mhz"] = c.Memory
	}

	if procs, err := m.dev.Processes(); err == nil {
		r.highest["neighbours"] = 0
		for _, p := range procs {
			if !m.own(p.PID) {
				r.highest["neighbours"]++
			}
		}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, r)
	if len(m.seen) > monitorKeep {
		m.seen = slices.Delete(m.seen, 0, len(m.seen)-monitorKeep/2)
	}
}

// since summarizes the readings since from. If there are none, it returns the last one before. ok
// is false if there is no reading.
func (m *monitor) since(from time.Duration) (sum reading, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum.highest = map[string]int{}
	for _, r := range slices.Backward(m.seen) {
		if ok && r.at < from {
			break
		}

		for column, v := range r.highest {
			sum.highest[column] = max(sum.highest[column], v)
		}
		sum.reasons |= r.reasons
		sum.asked = sum.asked || r.asked
		ok = true
	}

	return sum, ok
}

// columns returns the columns of the monitor: the highest temperature, the reasons for low clocks,
// and the number of processes of other programs on the device. Unknown ones are omitted.
func (m *monitor) columns(from time.Duration) map[string]any {
	r, ok := m.since(from)
	if !ok {
		return nil
	}

	out := map[string]any{}
	for column, v := range r.highest {
		out[column] = v
	}

	if r.asked {
		out["clock_reasons"] = (r.reasons &^ nvml.Idle).String()
		out["throttled"] = r.reasons&nvml.Harmful != 0
	}

	return out
}
