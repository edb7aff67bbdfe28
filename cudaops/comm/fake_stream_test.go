//go:build linux

package comm

import (
	"runtime"
	"time"

	"aicplan/cudaops/cuda"
)

// fakeWork is one operation queued on a stream.
type fakeWork struct {
	// key identifies an operation of several ranks. It is "" for an operation of one rank.
	key   string
	rank  int
	ranks int
	op    fakeOp
	args  []any
	run   func(ranks []*fakeWork)
	takes time.Duration
	on    *fakeStream

	stalled bool
}

type fakeStream struct {
	queue     []*fakeWork
	at        time.Duration // when the last work was done
	busy      bool          // fakeWork has started since the last wait for the stream
	capturing []func()
	captures  bool
}

type fakeEvent struct{ at time.Duration }

// push queues work, or records it if the stream captures. The caller must have locked mu.
func (n *machine) push(s cuda.Stream, make func() *fakeWork) error {
	st, ok := n.streams[s]
	if !ok {
		n.problem("work on a stream that does not exist")
		return cuda.NewDriverError("cuLaunch", cuda.CodeInvalidValue)
	}

	queue := func() {
		w := make()
		w.on = st
		st.queue = append(st.queue, w)
		n.advance()
	}

	if st.captures {
		st.capturing = append(st.capturing, queue)
		return nil
	}

	queue()
	return nil
}

// advance executes all work that can run. The caller must have locked mu.
func (n *machine) advance() {
	for again := true; again; {
		again = false
		for _, st := range n.streams {
			for len(st.queue) > 0 && n.head(st) {
				again = true
			}
		}
	}

	n.moved.Broadcast()
}

// ready returns when a stream can start its next work: now, or after its previous work. Host time between
// two calls is ignored, because another rank may have advanced the clock in the meantime.
func (st *fakeStream) ready(now time.Duration) time.Duration {
	if st.busy {
		return st.at
	}
	return max(st.at, now)
}

// head executes the first work of a stream if it can run.
func (n *machine) head(st *fakeStream) bool {
	w := st.queue[0]
	begin := st.ready(n.now)
	if w.key == "" {
		st.queue = st.queue[1:]
		st.at, st.busy = begin+w.takes, true
		w.run([]*fakeWork{w})
		return true
	}

	if w.stalled {
		return false
	}

	all := n.arrived[w.key]
	if all == nil {
		all = make([]*fakeWork, w.ranks)
		n.arrived[w.key] = all
	}

	all[w.rank] = w
	for _, o := range all {
		if o == nil || len(o.on.queue) == 0 || o.on.queue[0] != o {
			return false
		}
		begin = max(begin, o.on.ready(n.now))
	}

	delete(n.arrived, w.key)
	for _, o := range all {
		o.op.No = n.counts[w.op.Name]
	}

	n.counts[w.op.Name]++
	if n.Stall != nil && n.Stall(w.op) {
		for _, o := range all {
			o.stalled = true
		}
		return false
	}

	took := 10 * time.Microsecond
	if n.Latency != nil {
		took = n.Latency(w.op)
	}

	w.run(all)
	for _, o := range all {
		o.on.queue = o.on.queue[1:]
		o.on.at, o.on.busy = begin+took, true
	}

	return true
}

func (n *machine) simple(s cuda.Stream, run func()) error {
	return n.push(s, func() *fakeWork { return &fakeWork{run: func([]*fakeWork) { run() }} })
}

// NewStream implements cuda.Driver.
func (n *machine) NewStream() (cuda.Stream, error) {
	defer n.lock()()
	if _, err := n.device("cuStreamCreate"); err != nil {
		return 0, err
	}

	s := cuda.Stream(n.handle())
	n.streams[s] = &fakeStream{}
	return s, nil
}

// SyncStream implements cuda.Driver.
func (n *machine) SyncStream(s cuda.Stream) error {
	defer n.lock()()
	st := n.streams[s]

	for len(st.queue) > 0 {
		n.moved.Wait()
	}

	n.now, st.busy = max(n.now, st.at), false
	return nil
}

// NewEvent implements cuda.Driver.
func (n *machine) NewEvent() (cuda.Event, error) {
	defer n.lock()()
	e := cuda.Event(n.handle())
	n.events[e] = &fakeEvent{}
	return e, nil
}

// Record implements cuda.Driver.
func (n *machine) Record(e cuda.Event, s cuda.Stream) error {
	defer n.lock()()
	ev := n.events[e]
	return n.simple(s, func() { ev.at = n.streams[s].at })
}

// RecordExternal is Record. It also works inside a graph.
func (n *machine) RecordExternal(e cuda.Event, s cuda.Stream) error { return n.Record(e, s) }

// Idle reports whether a stream's work is done. Polling advances the clock if the work never ends, but not
// if it waits for a late rank.
func (n *machine) Idle(s cuda.Stream) (bool, error) {
	n.mu.Lock()
	st := n.streams[s]
	if len(st.queue) == 0 {
		n.now, st.busy = max(n.now, st.at), false
		n.mu.Unlock()
		return true, nil
	}

	if st.queue[0].stalled {
		n.now += time.Millisecond
	}

	n.mu.Unlock()
	runtime.Gosched()
	return false, nil
}

// Elapsed implements cuda.Driver.
func (n *machine) Elapsed(a, b cuda.Event) (float64, error) {
	defer n.lock()()
	return float64(n.events[b].at-n.events[a].at) / float64(time.Millisecond), nil
}

// Memset8 implements cuda.Driver.
func (n *machine) Memset8(p cuda.Ptr, v byte, bytes int64, s cuda.Stream) error {
	defer n.lock()()
	return n.simple(s, func() {
		b := n.bytes(p, bytes)
		for i := range b {
			b[i] = v
		}
	})
}

// Memset32 implements cuda.Driver.
func (n *machine) Memset32(p cuda.Ptr, v uint32, words int64, s cuda.Stream) error {
	defer n.lock()()
	return n.simple(s, func() {
		b := n.bytes(p, 4*words)
		for i := range b {
			b[i] = byte(v >> (8 * (i % 4)))
		}
	})
}

// CopyPeer implements cuda.Driver.
func (n *machine) CopyPeer(dst cuda.Ptr, _ cuda.Context, src cuda.Ptr, _ cuda.Context, bytes int64,
	s cuda.Stream) error {
	defer n.lock()()
	return n.push(s, func() *fakeWork {
		op := fakeOp{Name: "copy", Ranks: 1, Bytes: bytes, No: n.counts["copy"]}
		n.counts["copy"]++
		took := 10 * time.Microsecond
		if n.Latency != nil {
			took = n.Latency(op)
		}
		return &fakeWork{takes: took, run: func([]*fakeWork) {
			to := n.bytes(dst, bytes)
			copy(to, n.bytes(src, bytes))
			if n.Corrupt != nil && n.Corrupt(op, 0) {
				to[len(to)-1] ^= 0x40
			}
		}}
	})
}

// Launch implements cuda.Driver.
func (n *machine) Launch(l cuda.Launch, s cuda.Stream) error {
	defer n.lock()()
	k, ok := n.funcs[l.Func]
	if !ok {
		return cuda.NewDriverError("cuLaunchKernel", cuda.CodeInvalidValue)
	}

	return n.simple(s, func() { k(n.bytes, l.Args) })
}

// BeginCapture implements cuda.Driver.
func (n *machine) BeginCapture(s cuda.Stream) error {
	defer n.lock()()
	st := n.streams[s]
	st.captures, st.capturing = true, nil
	return nil
}

// EndCapture implements cuda.Driver.
func (n *machine) EndCapture(s cuda.Stream) (cuda.Graph, error) {
	defer n.lock()()
	st := n.streams[s]
	g := cuda.Graph(n.handle())
	n.graphs[g] = st.capturing
	st.captures, st.capturing = false, nil
	return g, nil
}

// Instantiate implements cuda.Driver.
func (n *machine) Instantiate(g cuda.Graph) (cuda.GraphExec, error) {
	defer n.lock()()
	x := cuda.GraphExec(n.handle())
	n.execs[x] = n.graphs[g]
	n.counts["graph"]++
	return x, nil
}

// Upload implements cuda.Driver.
func (n *machine) Upload(cuda.GraphExec, cuda.Stream) error { return nil }

// LaunchGraph implements cuda.Driver.
func (n *machine) LaunchGraph(x cuda.GraphExec, _ cuda.Stream) error {
	defer n.lock()()
	steps, ok := n.execs[x]
	if !ok {
		n.problem("launch of a graph that was freed")
		return cuda.NewDriverError("cuGraphLaunch", cuda.CodeInvalidValue)
	}

	for _, step := range steps {
		step()
	}
	return nil
}

// DestroyGraph implements cuda.Driver.
func (n *machine) DestroyGraph(g cuda.Graph) error {
	defer n.lock()()
	delete(n.graphs, g)
	return nil
}

// DestroyExec implements cuda.Driver.
func (n *machine) DestroyExec(x cuda.GraphExec) error {
	defer n.lock()()
	if _, ok := n.execs[x]; !ok {
		n.problem("a graph was freed twice")
	}
	delete(n.execs, x)
	return nil
}
