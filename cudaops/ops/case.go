package ops

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/measure"
)

// Case is one case with everything that is needed to queue it.
type Case struct {
	// Label is how messages call the case.
	Label string
	// Bytes moved through device memory at least, and floating-point (or
	// integer) operations, of one execution.
	Bytes, Flops float64
	// Kept are those of Bytes that stay in the cache from one execution to the next.
	Kept float64
	// LinkBytes cross the link to another device.
	LinkBytes float64
	// DType is the type whose tensor throughput bounds the case; empty for cases
	// that only move memory.
	DType DType
	// Columns are added to the row as they are.
	Columns map[string]any
	// Sets is how many operand sets rotate; execution i uses set i % Sets. It is a
	// multiple of PerGraph: an operand set that two graphs held would still be in
	// the cache when the second one reads it.
	Sets int
	// PerGraph is how many executions a graph holds at least.
	PerGraph int
	// Kernels is how many kernels an execution launches at most, where it is a chain;
	// 0 for one operation.
	Kernels int
	// Unsure says that Bytes and Flops may not tell how long an execution takes.
	Unsure bool
	// Enqueue queues one execution on operand set i.
	Enqueue func(set int, s driver.Stream) error
	// Settle is how many seconds the case runs alone at the sustained point, to
	// be timed in the last half of them; 0 where a visit tells as much.
	Settle float64
	// Close frees what the case holds; it may be nil.
	Close func()
	// Verify runs operand set 0 once and compares sampled outputs with a
	// reference in higher precision; nil where there is none.
	Verify func(samples int, seed uint64) (Deviation, error)
}

// hashOf chooses where a case's operands begin; the same in every run.
func hashOf(label string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(label))
	return h.Sum64()
}

// How operands rotate. In serving, weights come from memory at every step while
// activations were just written: so weights rotate and activations stay.
const (
	// perReplay is how many executions a graph of the reference protocol holds at
	// most: as many as the collectors of serving frameworks capture, so that
	// launching a graph costs the same share of an execution.
	perReplay = 5
	// mostExecutions is how many executions, and kernels of chains, longer graphs hold.
	mostExecutions = 64
	// coldCopies is up to how many copies of an operand are made to cover the L2
	// cache. Smaller operands, for which reading takes little of the time, rotate
	// through perReplay copies, as the collectors' do.
	coldCopies = 16
	// coverL2 is how many times the copies cover the cache.
	coverL2 = 2
)

// copies is how many copies of a rotating operand of so many bytes are used.
func (d *Device) copies(bytes float64) int {
	l2 := float64(max(d.Info.L2Bytes, 1<<20))
	if n := math.Ceil(l2 / math.Max(bytes, 1)); n > coldCopies {
		return perReplay
	}
	return int(math.Max(1, math.Ceil(coverL2*l2/bytes)))
}

// longEnough is the time of one execution, in seconds, from which on launching a
// graph costs nothing worth sharing.
const longEnough = 150e-6

// perGraph is how many executions a graph of a case holds at least.
func (d *Device) perGraph(c *Case, rotating float64) int {
	if t, _ := d.Peaks.Estimate(c); t > longEnough {
		return 1
	}
	n := math.Ceil(float64(max(d.Info.L2Bytes, 1<<20)) / math.Max(rotating, 1))
	return int(min(max(n, 1), perReplay))
}

// rotate chooses how the operands of a case, of so many bytes together, take
// turns: Sets and PerGraph. Bytes and Flops of the case must be known.
func (d *Device) rotate(c *Case, bytes float64) {
	c.PerGraph = d.perGraph(c, bytes)
	c.Sets = wholeGraphs(d.copies(bytes), c.PerGraph)
}

// wholeGraphs rounds operand sets up to whole graphs.
func wholeGraphs(sets, perGraph int) int { return (sets + perGraph - 1) / perGraph * perGraph }

// kept is how many of so many bytes, which do not rotate, stay in the cache: all
// or, where they exceed it, none.
func (d *Device) kept(bytes float64) float64 {
	if bytes < 0 || bytes > float64(d.Info.L2Bytes) {
		return 0
	}
	return bytes
}

// cacheState says where the rotating operand of a case lies when an execution
// begins: "cold" when everything that is read before its turn comes again
// exceeds the L2 cache, "hot" when it may stay there. The sets lie in a pool,
// and share memory where it is smaller than all of them.
func (d *Device) cacheState(sets int, bytes float64, pool *Pool) string {
	if min(float64(sets)*bytes, float64(pool.bytes)) >= float64(d.Info.L2Bytes) {
		return "cold"
	}
	return "hot"
}

// Target is a prepared case on its device: a measure.Burster.
type Target struct {
	dev      *Device
	c        *Case
	perGraph int       // executions of a graph: a part of the operand sets, or whole rotations
	made     []capture // at least one; without graphs when eager
	which    int       // of them, that runs now
	next     int       // graph of the next launch, or operand set of the next execution
}

// Graphs says how the graphs of a target are made.
type Graphs struct {
	// Mode is what measure.Settings call graph: with "prefer" a failed capture falls
	// back to eager launches, with "require" it is an error, with "off" there is none.
	Mode string
	// Captures is how often they are captured, for bursts to choose from: at least
	// once, MaxCaptures times at most, and once where an execution is so long that
	// launching a graph is no share of it.
	Captures int
	// Seconds is how long a graph should take at least; 0 for graphs of the case's
	// own PerGraph.
	Seconds float64
}

// perGraph is how many executions a graph that takes so many seconds holds: whole
// rotations, so that there is one graph. A case whose execution alone takes as long,
// or whose time is not known, stays as it is.
func (g Graphs) perGraph(c *Case, execution float64) int {
	if c.Unsure || execution >= g.Seconds {
		return c.PerGraph
	}
	most := max(mostExecutions/max(c.Kernels, 1)/c.Sets, 1)
	rotation := max(execution, 1e-9) * float64(c.Sets)
	return c.Sets * int(min(max(math.Ceil(g.Seconds/rotation-1e-9), 1), float64(most)))
}

// capture are the graphs of a case, captured once. The same graphs captured again
// are faster or slower for as long as they live: on an H200 by some 0.2 us a
// launch, and by up to 0.9 us where two graphs take turns. Nothing that a case
// could choose decides which, so a row is the mean over several captures.
type capture struct {
	execs []driver.GraphExec // in the order of their operand sets; empty when eager
	warm  bool               // they have run: their code is on the device
}

// MaxCaptures bounds how many captures a case has.
const MaxCaptures = 4

var (
	_ measure.Burster  = (*Target)(nil)
	_ measure.Capturer = (*Target)(nil)
	_ measure.Eager    = (*Target)(nil)
)

// NewTarget makes a target with graphs. Only with "prefer" and "off" it may have
// none.
func (d *Device) NewTarget(c *Case, g Graphs) (*Target, error) {
	if c.PerGraph < 1 || c.Sets < 1 || c.Sets%c.PerGraph != 0 {
		panic(fmt.Sprintf("ops: %s has %d operand sets in graphs of %d", c.Label, c.Sets, c.PerGraph))
	}
	t := &Target{dev: d, c: c, perGraph: c.PerGraph, made: make([]capture, 1)}
	if g.Mode == measure.GraphOff {
		return t, nil
	}
	execution, _ := d.Peaks.Estimate(c)
	t.perGraph = g.perGraph(c, execution)
	if execution > longEnough {
		g.Captures = 1
	}
	t.made = make([]capture, min(max(g.Captures, 1), MaxCaptures))
	err := t.capture()
	if err == nil {
		return t, nil
	}
	t.dropGraphs()
	if driver.Sticky(err) {
		return nil, err
	}
	if g.Mode == measure.GraphRequire {
		return nil, fmt.Errorf(`graph = "require": %s cannot be captured: %w`, c.Label, err)
	}
	return t, nil
}

func (t *Target) capture() error {
	t.dev.capturing.Lock()
	defer t.dev.capturing.Unlock()
	for i := range t.made {
		for g := range max(t.c.Sets/t.perGraph, 1) {
			x, err := t.captureOne(g * t.perGraph)
			if err != nil {
				return err
			}
			t.made[i].execs = append(t.made[i].execs, x)
		}
	}
	return nil
}

// Captures implements measure.Capturer.
func (t *Target) Captures() int { return len(t.made) }

// use lets executions run from a capture, by its number modulo those that there
// are. They go on with the operand sets where the ones before ended.
func (t *Target) use(capture int) { t.which = capture % len(t.made) }

func (t *Target) execs() []driver.GraphExec { return t.made[t.which].execs }

func (t *Target) captureOne(first int) (driver.GraphExec, error) {
	api, s := t.dev.Lib.Driver, t.dev.prep
	if err := api.BeginCapture(s); err != nil {
		return 0, err
	}
	var failed error
	for i := range t.perGraph {
		if failed = t.c.Enqueue((first+i)%t.c.Sets, s); failed != nil {
			break
		}
	}
	g, err := api.EndCapture(s)
	if failed != nil || err != nil {
		if g != 0 {
			err = errors.Join(err, api.DestroyGraph(g))
		}
		return 0, errors.Join(failed, err)
	}
	x, err := api.Instantiate(g)
	if e := api.DestroyGraph(g); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return 0, err
	}
	// The graph is not uploaded from here: on an H200 (driver 580) uploads from
	// this stream made every kernel of the process 0.2 to 0.9 us slower for some
	// tenths of a second. Its first launch brings it to the device.
	return x, nil
}

func (t *Target) dropGraphs() {
	for _, m := range t.made {
		for _, x := range m.execs {
			// An error here belongs to work that failed before and is reported there.
			_ = t.dev.Lib.Driver.DestroyExec(x)
		}
	}
	t.made, t.which = make([]capture, 1), 0
}

// UsesGraph says whether executions are replayed from graphs.
func (t *Target) UsesGraph() bool { return len(t.execs()) > 0 }

// Close frees graphs and what the case holds.
func (t *Target) Close() {
	t.dropGraphs()
	if t.c.Close != nil {
		t.c.Close()
	}
}

// Quantum is how many executions come in one piece.
func (t *Target) Quantum() int {
	if t.UsesGraph() {
		return t.perGraph
	}
	return 1
}

// queue queues n executions, rounded up to whole graphs, and returns how many.
// It goes on where the executions before ended: beginning anew would read
// operands again that were just used.
func (t *Target) queue(n int) (int, error) {
	api, s := t.dev.Lib.Driver, t.dev.stream
	if !t.UsesGraph() {
		for range n {
			if err := t.c.Enqueue(t.next, s); err != nil {
				return 0, err
			}
			t.next = (t.next + 1) % t.c.Sets
		}
		return n, nil
	}
	launches := (n + t.perGraph - 1) / t.perGraph
	for range launches {
		if err := api.LaunchGraph(t.execs()[t.next], s); err != nil {
			return 0, err
		}
		t.next = (t.next + 1) % len(t.execs())
	}
	return launches * t.perGraph, nil
}

// Eager implements measure.Eager.
func (t *Target) Eager(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range n {
		if err := t.c.Enqueue(i%t.c.Sets, t.dev.stream); err != nil {
			return err
		}
	}
	return t.dev.Lib.Driver.SyncStream(t.dev.stream)
}

// Block implements measure.Target: a burst of one block without warm-up.
func (t *Target) Block(ctx context.Context, n int) (measure.Block, error) {
	blocks, err := t.Burst(ctx, measure.Burst{Executions: n, Blocks: 1})
	if err != nil {
		return measure.Block{}, err
	}
	return blocks[0], nil
}
