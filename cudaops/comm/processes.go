package comm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"aicplan/cudaops/driver"
)

// rankPipes is the connection to a rank's process.
type rankPipes struct {
	orders  io.WriteCloser
	replies io.Reader
	// kill ends the process immediately. reaped waits for its end and returns its exit error.
	kill   func()
	reaped func() error
}

// processes starts ranks as separate processes.
type processes struct {
	spawn   func(rank int) (*rankPipes, error)
	devices []driver.Device // by rank
	// startup bounds how long a rank may take to open its device.
	startup time.Duration
}

func processCrew(spawn func(int) (*rankPipes, error), devices []driver.Device, limit float64) *crew {
	h := &processes{spawn: spawn, devices: devices, startup: 60 * time.Second}
	return newCrew(h.hire, limit)
}

// spawnSelf starts this program as a rank.
func spawnSelf(int) (*rankPipes, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, RankVerb)
	cmd.Args[0] = "aicplan"
	return spawnRank(cmd)
}

func spawnRank(cmd *exec.Cmd) (*rankPipes, error) {
	theirIn, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	replies, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		orders.Close()
		return nil, err
	}

	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the worker's log
	err = cmd.Start()

	// Close our copies of the child's ends, else the pipes would stay open after the child has ended.
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		orders.Close()
		replies.Close()
		return nil, fmt.Errorf("starting a rank's process: %w", err)
	}

	wait := sync.OnceValue(func() error {
		err := cmd.Wait()
		replies.Close()
		return err
	})

	return &rankPipes{
		orders: orders, replies: replies, reaped: wait,
		kill: func() { _ = cmd.Process.Kill() }, // an error means that it has already ended
	}, nil
}

type process struct {
	no    int
	pipes *rankPipes

	mu      sync.Mutex
	orders  *json.Encoder
	pending chan<- outcome
	ready   chan readiness // reply to the first order, nil afterwards
	opened  <-chan readiness
	dead    error
	ended   chan struct{} // closed when no further replies can arrive
	once    sync.Once
}

func (h *processes) hire(ctx context.Context, no int) (member, error) {
	pipes, err := h.spawn(no)
	if err != nil {
		return nil, err
	}

	m := newProcess(no, pipes)
	if _, err := m.open(ctx, opening{Rank: no, Device: h.devices[no]}, h.startup); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// newProcess returns the member for a rank's process and starts to read replies.
func newProcess(no int, pipes *rankPipes) *process {
	m := &process{no: no, pipes: pipes, orders: json.NewEncoder(pipes.orders), ready: make(chan readiness, 1),
		ended: make(chan struct{})}
	m.opened = m.ready
	go m.read()
	return m
}

// open sends the rank's number and device and waits until the device is ready.
func (m *process) open(ctx context.Context, be opening, within time.Duration) (*about, error) {
	// If the pipe is broken, read reports the end of the process.
	_ = m.send(order{Open: &be})
	timer := time.NewTimer(within)
	defer timer.Stop()

	select {
	case r := <-m.opened:
		return r.about, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, fmt.Errorf("the rank's process was not ready within %v", within)
	}
}

// readiness is the reply to the opening order.
type readiness struct {
	about *about
	err   error
}

func (m *process) send(o order) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.orders.Encode(o)
}

// read delivers replies until the process ends.
func (m *process) read() {
	defer close(m.ended)
	lines := newLines(m.pipes.replies)

	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			m.lost(fmt.Errorf("the rank's process sent what is no reply: %.80q", lines.Text()))
			return
		}
		var err *rankError
		if r.How != "" {
			err = &rankError{Rank: m.no, How: r.How, Err: errors.New(r.Error)}
		}
		m.deliver(r.Report, err)
	}

	err := lines.Err()
	if how := m.pipes.reaped(); how != nil {
		err = how
	}

	if err == nil {
		err = errors.New("without a word")
	}

	m.lost(fmt.Errorf("the rank's process ended: %w", err))
}

func (m *process) deliver(rep report, err *rankError) {
	m.mu.Lock()
	ready, pending := m.ready, m.pending
	m.ready, m.pending = nil, nil
	m.mu.Unlock()

	switch {
	case ready != nil && err != nil:
		ready <- readiness{err: err.Err}
	case ready != nil:
		ready <- readiness{about: rep.About}
	case pending != nil:
		pending <- outcome{m.no, rep, err}
	}
}

func (m *process) lost(err error) {
	m.mu.Lock()
	m.dead = err
	m.mu.Unlock()
	m.deliver(report{}, &rankError{Rank: m.no, How: failDied, Err: err})
}

func (m *process) start(t task, out chan<- outcome) {
	m.mu.Lock()
	dead := m.dead
	if dead == nil {
		m.pending = out
	}

	m.mu.Unlock()
	if dead != nil {
		out <- outcome{m.no, report{}, &rankError{Rank: m.no, How: failDied, Err: dead}}
		return
	}

	_ = m.send(order{Task: &t}) // see open
}

func (m *process) cancel() { _ = m.send(order{Cancel: true}) }

func (m *process) rescue(ranks int) error {
	err := m.send(order{Rescue: ranks})
	if err != nil && m.gone() {
		return nil // the process has ended, there is nothing to abort
	}
	return err
}

func (m *process) gone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead != nil
}

// endGrace is how long a rank's process may take to exit by itself.
const endGrace = 2 * time.Second

func (m *process) end() {
	m.once.Do(func() {
		_ = m.pipes.orders.Close() // the process exits at the end of its input
		go func() {
			timer := time.NewTimer(endGrace)
			defer timer.Stop()
			select {
			case <-m.ended:
			case <-timer.C:
			}
			m.pipes.kill() // needed if it closed its pipe but has not exited
			_ = m.pipes.reaped()
		}()
	})
}
