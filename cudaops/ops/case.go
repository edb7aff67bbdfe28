package ops

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
)

// Case is a prepared case.
type Case struct {
	// Label identifies the case in messages.
	Label string
	// Bytes is the minimum traffic of device memory, and Flops the number of floating-point or
	// integer operations, of one execution.
	Bytes, Flops float64
	// Kept is the part of Bytes that stays in the cache between executions.
	Kept float64
	// DType is the type whose tensor throughput bounds the case. It is empty for cases that only
	// move memory.
	DType DType
	// Columns are additional columns of the row.
	Columns map[string]any
	// Sets is the number of operand sets. Execution i uses set i % Sets. It is a multiple of
	// PerGraph, because a set in two graphs would still be in the cache when the second one
	// reads it.
	Sets int
	// PerGraph is the minimum number of executions in a graph.
	PerGraph int
	// Kernels is the maximum number of kernels of an execution that is a chain, or 0 for a single
	// operation.
	Kernels int
	// Unsure is true if Bytes and Flops do not determine the time of an execution.
	Unsure bool
	// Enqueue queues one execution on operand set i.
	Enqueue func(set int, s cuda.Stream) error
	// Settle is how long the case runs alone at the sustained point, in seconds. The last half
	// is timed. It is 0 for cases that are measured in visits.
	Settle float64
	// Close frees resources. It may be nil.
	Close func()
	// Verify runs operand set 0 once and compares sampled outputs with a reference in higher
	// precision. It is nil if there is no reference.
	Verify func(samples int, seed uint64) (Deviation, error)
}

// hashOf returns the hash that determines the position of a case's operands.
func hashOf(label string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(label))
	return h.Sum64()
}

// Rotation of operands. In serving, weights are read from memory at every step, and
// activations have just been written. So weights rotate and activations do not.
const (
	// perReplay is the maximum number of executions in a graph of the reference protocol. The
	// collectors of serving frameworks capture as many, so launching a graph has the same share
	// of an execution.
	perReplay = 5
	// mostExecutions is the maximum number of executions, or kernels of chains, in longer graphs.
	mostExecutions = 64
	// coldCopies is the maximum number of copies of an operand that cover the L2 cache. Smaller
	// operands, whose reading takes little time, have perReplay copies, as in the collectors.
	coldCopies = 16
	// coverL2 is how often the copies cover the cache.
	coverL2 = 2
)

// copies returns the number of copies of a rotating operand of the given size.
func (d *Device) copies(bytes float64) int {
	l2 := float64(max(d.Info.L2Bytes, 1<<20))
	if n := math.Ceil(l2 / math.Max(bytes, 1)); n > coldCopies {
		return perReplay
	}

	return int(math.Max(1, math.Ceil(coverL2*l2/bytes)))
}

// longEnough is the time of one execution, in seconds, above which the launch of a graph is
// negligible.
const longEnough = 150e-6

// perGraph returns the minimum number of executions in a graph of a case.
func (d *Device) perGraph(c *Case, rotating float64) int {
	if t, _ := d.Peaks.Estimate(c); t > longEnough {
		return 1
	}

	n := math.Ceil(float64(max(d.Info.L2Bytes, 1<<20)) / math.Max(rotating, 1))
	return int(min(max(n, 1), perReplay))
}

// rotate sets Sets and PerGraph of a case whose rotating operands have the given total size.
// Bytes and Flops of the case must be set.
func (d *Device) rotate(c *Case, bytes float64) {
	c.PerGraph = d.perGraph(c, bytes)
	c.Sets = (d.copies(bytes) + c.PerGraph - 1) / c.PerGraph * c.PerGraph // whole graphs
}

// kept returns how many of the bytes that do not rotate stay in the cache: all of them, or 0 if
// they exceed it.
func (d *Device) kept(bytes float64) float64 {
	if bytes < 0 || bytes > float64(d.Info.L2Bytes) {
		return 0
	}

	return bytes
}

// cacheState returns whether the rotating operand of a case is in the L2 cache when an execution
// begins: "cold" if the data read since its last use exceeds the cache, otherwise "hot". Sets
// overlap if the pool is smaller than all of them.
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
	made     []capture // at least one, without graphs if eager
	which    int       // the current capture
	next     int       // graph of the next launch, or operand set of the next execution
}

// Graphs configures the graphs of a target.
type Graphs struct {
	// Mode is the setting graph of measure.Settings: "prefer" falls back to eager launches if the
	// capture fails, "require" returns an error, "off" captures no graph.
	Mode string
	// Captures is how often they are captured. Bursts select a capture. It is at least 1 and at
	// most MaxCaptures, and 1 if the launch of a graph is negligible.
	Captures int
	// Seconds is the minimum time of a graph, or 0 for graphs of Case.PerGraph executions.
	Seconds float64
}

// perGraph returns the number of executions in a graph of the required time: whole rotations, so
// that there is one graph. For a case whose time is unknown or long enough, it is PerGraph.
func (g Graphs) perGraph(c *Case, execution float64) int {
	if c.Unsure || execution >= g.Seconds {
		return c.PerGraph
	}

	most := max(mostExecutions/max(c.Kernels, 1)/c.Sets, 1)
	rotation := max(execution, 1e-9) * float64(c.Sets)
	return c.Sets * int(min(max(math.Ceil(g.Seconds/rotation-1e-9), 1), float64(most)))
}

// capture contains the graphs of a case from one capture. The speed of the same graphs differs
// between captures, by 0.2 us per launch on an H200, and by up to 0.9 us if two graphs
// alternate. It cannot be controlled, so a row is the mean over several captures.
type capture struct {
	execs []cuda.GraphExec // in the order of their operand sets; empty if eager
	warm  bool             // they have run, so their code is on the device
}

// MaxCaptures is the maximum number of captures of a case.
const MaxCaptures = 4

var _ measure.Capturer = (*Target)(nil)

// NewTarget creates a target with graphs. It has no graphs if the mode is "off", or if it is
// "prefer" and the capture fails.
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
	if cuda.Sticky(err) {
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

func (t *Target) execs() []cuda.GraphExec { return t.made[t.which].execs }

func (t *Target) captureOne(first int) (cuda.GraphExec, error) {
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
	if err = cmp.Or(err, api.DestroyGraph(g)); err != nil {
		return 0, err
	}

	// Do not upload the graph. On an H200 (driver 580), uploads from this stream made every kernel
	// of the process 0.2 to 0.9 us slower for some tenths of a second. The first launch uploads
	// it.
	return x, nil
}

func (t *Target) dropGraphs() {
	for _, m := range t.made {
		for _, x := range m.execs {
			// An error is that of earlier work, which has been reported.
			_ = t.dev.Lib.Driver.DestroyExec(x)
		}
	}

	t.made, t.which = make([]capture, 1), 0
}

// UsesGraph reports whether executions are replayed from graphs.
func (t *Target) UsesGraph() bool { return len(t.execs()) > 0 }

// Close frees the graphs and the case.
func (t *Target) Close() {
	t.dropGraphs()
	if t.c.Close != nil {
		t.c.Close()
	}
}

// Quantum returns the number of executions per launch.
func (t *Target) Quantum() int {
	if t.UsesGraph() {
		return t.perGraph
	}

	return 1
}

// queue queues n executions, rounded up to whole graphs, and returns their number. It continues
// with the next operand set, because the first ones may still be in the cache.
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
