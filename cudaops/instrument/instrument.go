// Package instrument measures what the Python workers of one device prepare. It runs
// in the engine, at the engine's end of the workers' pipes: workers prepare cases, run
// bursts of them and release them, and measure.Session decides about passes, operating
// points, clocks and corrections, as it does for native ops.
//
// Preparing and visiting alternate. While no worker of the device prepares, all cases
// that are prepared are measured as one batch; then each worker goes on with its
// cases, the last one first, and prepares others.
package instrument

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// Options describe a device.
type Options struct {
	// Clock is the time that sessions see; nil is the system's.
	Clock measure.Clock
	// Device finds the management library's view of a device by its UUID; nil is
	// that of this machine. Rows have no power without it.
	Device func(uuid string) (nvml.Device, error)
	// Trace receives every visit of every session; it may be nil.
	Trace func(measure.Visit)
}

// Instrument measures what the workers of one device prepare. It is safe for
// concurrent use.
type Instrument struct {
	o Options

	mu      sync.Mutex
	changed *sync.Cond
	members []*member
	running bool
	// took is the memory that the last cases of an op took while they were prepared.
	took map[string][]int64
	// quiet is until when the instrument waits for further cases before it measures.
	quiet time.Time

	device nvml.Device // of the last batch
	uuid   string
	level  float64 // clock of the ready device, from earlier sessions
	// capped are the clocks of capped cases in earlier sessions, by op: ops differ in how they follow the power cap.
	capped map[string][]measure.CappedClock
}

// New returns the instrument of a device.
func New(o Options) *Instrument {
	if o.Clock == nil {
		o.Clock = measure.NewSystemClock()
	}
	if o.Device == nil {
		o.Device = ofThisMachine
	}
	in := &Instrument{o: o, took: map[string][]int64{}, capped: map[string][]measure.CappedClock{}}
	in.changed = sync.NewCond(&in.mu)
	return in
}

func ofThisMachine(uuid string) (nvml.Device, error) {
	api, err := nvml.Open()
	if err != nil {
		return nil, err
	}
	return nvml.Find(api, uuid)
}

// Join adds a worker of the device; see worker.Spec.Instrument.
func (in *Instrument) Join(send func(msg any) error) worker.Measurer {
	in.mu.Lock()
	defer in.mu.Unlock()
	m := newMember(in, send, 0)
	in.members = append(in.members, m)
	if !in.running {
		in.running = true
		go in.run()
	}
	return &measurer{worker: m, children: map[int]*member{}}
}

// run directs the workers and measures until none is left.
func (in *Instrument) run() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		if len(in.members) == 0 {
			in.running = false
			return
		}
		if batch, _ := in.direct(); len(batch) > 0 {
			in.mu.Unlock()
			in.measure(batch)
			in.mu.Lock()
			continue
		}
		in.changed.Wait()
	}
}

// lull is how long a device waits at most for further cases of the engine before it measures
// those that it has.
const lull = 100 * time.Millisecond

// more gives further cases of the engine the memory of those that have ended. It
// returns the prepared ones that are not known.
func (in *Instrument) more(known map[*offer]bool) (fresh []*offer) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		batch, settled := in.direct()
		if !settled {
			in.changed.Wait()
			continue
		}
		for _, o := range batch {
			if !known[o] {
				fresh = append(fresh, o)
			}
		}
		return fresh
	}
}

// direct gives every worker that waits its next command. It returns the batch to
// measure once every worker waits and none can prepare more, and whether that is so.
func (in *Instrument) direct() (batch []*offer, settled bool) {
	busy, alone := 0, false
	for _, m := range in.members {
		if !m.idle() {
			busy++
		}
		alone = alone || m.alone && (!m.parked || m.fills && m.depth() > 0)
	}
	hungry := false // a worker could prepare more, and the engine may have more for it
	full := in.full(busy)
	for _, m := range in.members {
		if !m.parked {
			continue
		}
		if ended := m.answerable(); len(ended) > 0 {
			m.release(ended)
			busy++
			continue
		}
		if !in.begins(m) {
			continue
		}
		switch held := in.held(); {
		case alone:
		case m.ready.Waiting == 0 && !m.ready.Going:
			hungry = hungry || !m.drained
		case busy == 0 && held == 0 && (m.ready.Short > 0 || m.ready.Fills) && !m.ready.Going:
			// A case that ran out of memory has the device to itself at last, one that takes all of it from the start.
			if alone = true; !in.trims(1) {
				m.next(true)
			}
			busy++
		case busy == 0 && held == 0, !full && in.room(m, busy):
			m.next(false)
			busy++
		}
	}
	if busy == 0 && full && in.trims(in.members[0].ready.Total/keptShare) {
		busy++
	}
	if busy > 0 {
		in.quiet = time.Time{}
		return nil, false
	}
	for _, m := range in.members {
		for _, o := range m.offers {
			if !o.ended {
				batch = append(batch, o)
			}
		}
	}
	if len(batch) == 0 || !hungry {
		return batch, true
	}
	if now := time.Now(); in.quiet.IsZero() {
		in.quiet = now.Add(lull)
		time.AfterFunc(lull, in.changed.Broadcast)
		return nil, false
	} else if now.Before(in.quiet) {
		return nil, false
	}
	in.quiet = time.Time{}
	return batch, true
}

// mostDeep bounds the cases of one worker that wait in their calls.
const mostDeep = 128

// begins reports whether the worker may begin a case beside those that it has prepared.
func (in *Instrument) begins(m *member) bool {
	return !m.unwinding() && m.depth() < mostDeep && (m.ready.Going || m.ready.Closed == "" && !m.child)
}

// full reports whether the device has memory for the next case of a few workers only. The
// others would be idle if those few went on alone.
func (in *Instrument) full(busy int) bool {
	able, lack := busy, 0
	for _, m := range in.members {
		switch {
		case !m.parked || m.ready.Waiting == 0 && !m.ready.Going || !in.begins(m):
		case in.room(m, busy):
			able++
		default:
			lack++
		}
	}
	return lack > fewShare*able
}

// fewShare is how many workers without memory for their next case outweigh one that has it.
const fewShare = 2

// held is how many prepared cases the workers hold.
func (in *Instrument) held() (n int) {
	for _, m := range in.members {
		n += len(m.offers)
	}
	return n
}

// room reports whether the device has memory for the next case of the worker beside those
// that are being prepared.
func (in *Instrument) room(m *member, busy int) bool {
	if m.ready.Fills && !m.ready.Going {
		return false
	}
	if m.ready.Total == 0 {
		// Nothing is known of the memory: one case at a time, and none again that lacked some.
		return len(m.offers) == 0 && (m.ready.Going || m.ready.Short == 0)
	}
	last := m // the member with the newest reading of the free memory
	for _, o := range in.members {
		if o.seen.After(last.seen) && o.ready.Total > 0 {
			last = o
		}
	}
	free := last.ready.Free
	op := m.ready.NextOp
	if m.ready.Going {
		op = m.ready.CallOp
	}
	need := in.needs(op)
	free -= int64(busy) * need
	if !m.ready.Going {
		need = max(need, m.ready.Short*shortMargin/100)
	}
	return free+m.ready.Kept-need >= m.ready.Total/spareShare
}

// needs is the memory that a further case of the op is taken to need; 0 if unknown.
func (in *Instrument) needs(op string) int64 {
	took := slices.Sorted(slices.Values(in.took[op]))
	if len(took) == 0 {
		return 0
	}
	return took[len(took)*needQuantile/100]
}

// shortMargin is how much memory a case gets, in percent of what was not enough.
const shortMargin = 150

// trims has the workers that keep so many bytes give them back, and reports whether there
// is one that had not done so.
func (in *Instrument) trims(least int64) (any bool) {
	for _, m := range in.members {
		if m.parked && !m.trimmed && m.ready.Kept >= least {
			m.trimmed, any = true, true
			m.resume(command{What: "trim"})
		}
	}
	return any
}

// keptShare is which part of a device's memory a worker may keep while others lack it.
const keptShare = 48

// needQuantile is the percentile of the memory of cases that a further one is taken to
// need: some need far more than most, and those are tried again at the end.
// tookCases is of how many it is.
const (
	needQuantile = 60
	tookCases    = 64
)

// spareShare is which part of a device's memory a batch leaves free: what preparing a
// case takes for a moment is in no reading.
const spareShare = 24

// member is a worker of the device, or a process that a case of it has started.
type member struct {
	in     *Instrument
	send   func(msg any) error
	id     int  // 0 for the worker itself
	child  bool // a process that a case has started
	parked bool // it waits for a command
	// trimmed is set once it has given back its memory, until its next case.
	trimmed bool
	// sent counts the commands that end a wait. If a status counts fewer, the worker sent it before it
	// received the last one, and is not waiting.
	sent int
	// drained is set once the engine has processed the results before its wait, and has no further case for it.
	drained bool
	alone   bool // the case that it began last has the device to itself until it is prepared
	fills   bool // and until its call returns
	ready   status
	seen    time.Time // when ready came
	offers  []*offer  // whose result it has not received; the last one is innermost

	children int // of a worker: processes of its case that are there
	replies  chan reply
	gone     chan struct{}
}

func newMember(in *Instrument, send func(any) error, id int) *member {
	return &member{in: in, send: send, id: id, child: id != 0, replies: make(chan reply, 1), gone: make(chan struct{})}
}

// idle reports whether the worker does no work on the device of its own: it waits for
// a command, or for a process that its case has started.
func (m *member) idle() bool { return m.parked || m.children > 0 }

// answerable are the cases whose end the worker takes now: those that it does not wait
// for, and the innermost one of the others.
func (m *member) answerable() (out []*offer) {
	innermost := true
	for _, o := range slices.Backward(m.offers) {
		if o.ended && (o.Later || innermost) {
			out = append(out, o)
		}
		innermost = innermost && o.Later
	}
	return out
}

// depth is how many cases wait in their calls.
func (m *member) depth() (n int) {
	for _, o := range m.offers {
		if !o.Later {
			n++
		}
	}
	return n
}

// unwinding reports whether cases that have been measured wait for inner ones to return.
func (m *member) unwinding() bool {
	for _, o := range m.offers {
		if o.ended {
			return true
		}
	}
	return false
}

// command is a message to a worker.
type command struct {
	Type       string  `json:"type"`
	To         int     `json:"to,omitempty"`
	What       string  `json:"what"`
	Handle     int64   `json:"handle,omitempty"`
	Alone      bool    `json:"alone,omitempty"`
	Soak       int     `json:"soak,omitempty"`
	Warm       int     `json:"warm,omitempty"`
	Executions int     `json:"executions,omitempty"`
	Blocks     int     `json:"blocks,omitempty"`
	Plain      bool    `json:"plain,omitempty"`
	Busy       bool    `json:"busy,omitempty"`
	Stop       bool    `json:"stop,omitempty"`
	Cold       float64 `json:"cold,omitempty"` // seconds up to which cases may be measured cold
	Ended      []end   `json:"ended,omitempty"`
}

// end is how a case ended.
type end struct {
	Handle  int64          `json:"handle"`
	Later   bool           `json:"later,omitempty"`
	Columns map[string]any `json:"columns,omitempty"`
	Error   *failure       `json:"error,omitempty"`
}

// failure is why a case has no measurement. Own is set if the worker itself has the
// exception.
type failure struct {
	Own     bool   `json:"own,omitempty"`
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
}

// request sends a command to the worker.
func (m *member) request(c command) error {
	c.Type, c.To = worker.TypeMeasure, m.id
	return m.send(c)
}

// next has the worker begin its next case. Alone is set if no other case has memory of the
// device until it is prepared.
func (m *member) next(alone bool) {
	m.trimmed, m.alone, m.fills = false, alone, m.ready.Fills
	m.resume(command{What: "next", Alone: alone, Cold: coldMargin * longest / 1e3})
}

// resume sends a command that ends the worker's wait.
func (m *member) resume(c command) {
	m.parked = false
	m.sent++
	_ = m.request(c) // a broken pipe ends the worker
}

// release sends the results of cases to the worker.
func (m *member) release(ended []*offer) {
	c := command{What: "done"}
	for _, o := range ended {
		if o.Later && o.columns != nil {
			o.columns["spent"] = o.hot.Spent.Seconds()
		}
		c.Ended = append(c.Ended, end{o.Handle, o.Later, o.columns, o.failure})
	}
	m.offers = slices.DeleteFunc(m.offers, func(o *offer) bool { return slices.Contains(ended, o) })
	m.resume(c)
}

// measurer is the end of a worker's pipe.
type measurer struct {
	worker   *member
	children map[int]*member
	waits    int // of its process, so far
}

// Receive implements worker.Measurer.
func (r *measurer) Receive(line []byte) (waits bool, err error) {
	var msg message
	if err := json.Unmarshal(line, &msg); err != nil {
		return false, fmt.Errorf("a measure message that is none: %w", err)
	}
	in := r.worker.in
	in.mu.Lock()
	defer in.mu.Unlock()
	defer func() {
		if waits {
			r.waits++
		}
	}()
	m := r.worker
	if msg.From != 0 {
		if m = r.children[msg.From]; m == nil {
			m = newMember(in, r.worker.send, msg.From)
			r.children[msg.From] = m
			in.members = append(in.members, m)
			r.worker.children++
		}
	}
	defer in.changed.Broadcast()
	switch msg.What {
	case "prepared":
		if msg.Quantum < 1 {
			return false, fmt.Errorf("a prepared case whose launches hold %d executions", msg.Quantum)
		}
		took := append(in.took[msg.Op], msg.Took)
		in.took[msg.Op] = took[max(0, len(took)-tookCases):]
		m.offers = append(m.offers, &offer{prepared: msg.prepared, m: m})
		return false, nil
	case "ready":
		m.ready, m.seen, m.parked, m.drained = msg.status, time.Now(), msg.Commands == m.sent, false
		return m.parked, nil
	case "reply":
		select {
		case m.replies <- msg.reply:
		default:
			return false, fmt.Errorf("a reply to no command")
		}
		return true, nil
	case "leave":
		if msg.From != 0 {
			m.leave()
			delete(r.children, msg.From)
			r.worker.children--
		}
		return false, nil
	}
	return false, fmt.Errorf("a measure message of the kind %q", msg.What)
}

// Given implements worker.Measurer.
func (r *measurer) Given(wait, cases int) {
	in := r.worker.in
	in.mu.Lock()
	defer in.mu.Unlock()
	r.worker.drained = wait == r.waits && cases <= r.worker.ready.Waiting
	in.changed.Broadcast()
}

// Close implements worker.Measurer.
func (r *measurer) Close() {
	in := r.worker.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, c := range r.children {
		c.leave()
	}
	r.worker.leave()
	in.changed.Broadcast()
}

// leave takes a process that is gone off the device.
func (m *member) leave() {
	close(m.gone)
	for i, o := range m.in.members {
		if o == m {
			m.in.members = append(m.in.members[:i:i], m.in.members[i+1:]...)
			return
		}
	}
}

// message is one message of a worker.
type message struct {
	What string `json:"what"`
	From int    `json:"from"`
	prepared
	status
	reply
}

// prepared describes a case that can be measured.
type prepared struct {
	Handle   int64           `json:"handle"`
	Op       string          `json:"op"`
	GPU      bool            `json:"gpu"`
	Quantum  int             `json:"quantum"` // executions of a launch
	Graph    bool            `json:"graph"`   // launches replay a graph
	Seconds  float64         `json:"seconds"` // estimate of one execution
	Settings json.RawMessage `json:"settings"`
	Settle   float64         `json:"settle"` // seconds that the case runs alone
	Cold     bool            `json:"cold"`   // its operands shall come from memory
	Warmups  int             `json:"warmups"`
	Runs     int             `json:"runs"`
	Took     int64           `json:"took"`  // bytes of device memory
	Later    bool            `json:"later"` // the worker goes on without the result
}

// status is what a worker that waits reports.
type status struct {
	Free     int64  `json:"free"`    // bytes of the device
	Total    int64  `json:"total"`   // bytes of the device; 0 if unknown
	Kept     int64  `json:"kept"`    // bytes that it keeps for further tensors
	Waiting  int    `json:"waiting"` // cases that it has not begun
	NextOp   string `json:"next_op"`
	Going    bool   `json:"going"`   // the call at work waits to prepare one more
	CallOp   string `json:"call_op"` // its op
	Closed   string `json:"closed"`  // why it can begin none now
	Short    int64  `json:"short"`   // bytes that were not enough for the next one; 0 if not tried
	Fills    bool   `json:"fills"`   // the next one takes what memory the device has
	UUID     string `json:"uuid"`
	Commands int    `json:"commands"` // received so far that ended a wait
}

// reply answers a command.
type reply struct {
	Blocks  [][3]float64 `json:"blocks"` // seconds, executions, MHz
	MHz     float64      `json:"mhz"`    // of the device with nothing running
	Bound   bool         `json:"bound"`  // launches of the host may be in the times
	Done    int          `json:"done"`   // executions of a load that have ended
	Handles []int64      `json:"handles"`
	Failed  bool         `json:"failed"`
	Text    string       `json:"text"`
}
