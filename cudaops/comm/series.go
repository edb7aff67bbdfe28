package comm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"aicplan/cudaops/measure"
)

// Counts used by aiconfigurator's collector with nccl-tests.
const (
	warmups       = 40
	iterations    = 100
	iterationsBig = 60 // above bigMessage
	bigMessage    = 16 << 20
)

// Limits of the block length. A block of a few milliseconds is long enough that its start and end do not
// matter, and more blocks give more information than longer ones.
const (
	longestBlock = 5 * time.Millisecond
	longestWarm  = 2 * time.Millisecond
	fewestWarm   = 2
	// fewest is the minimum number of executions timed together. Right after a barrier the ranks are in
	// step, unlike in back-to-back work.
	fewest      = 10
	graphBlock  = 150 * time.Microsecond
	briefBlock  = 75 * time.Microsecond // for executions below briefBelow
	graphMost   = 20                    // maximum executions per block of a graph
	graphBlocks = 4
	// graphVisit is the total time of the replays of a visit. Small messages depend on the offset between
	// ranks at the start of a replay, which is random for each start line, so many short replays are better
	// than a few long ones. On two H200s, rows were within 1.04 of a case's fastest (p95) with 16 to 19
	// replays in blocks of 5 to 11 executions, and within 1.22 with 5 replays in blocks of 2 to 4.
	graphVisit   = 12 * time.Millisecond
	graphReplays = 5 // minimum, if max_pass_seconds allows it
	mostReplays  = 32
	// briefBelow is the execution time below which these effects matter. Each replay of such executions is
	// preceded by an untimed replay, so that links and caches are in use as they are in serving.
	briefBelow = 40 * time.Microsecond
	// disturbedBy caps the time of a graph pass, as a multiple of the median of the case's passes.
	// Differences between captures are smaller: of 737 passes on two H200s, 19 were more than 3 % above
	// their median and 3 more than 5 %.
	disturbedBy = 1.05
)

// series collects the times of one form of a case.
type series struct {
	samples    []float64 // seconds per execution
	medians    []float64 // median of each pass
	blocks     []float64 // seconds
	spreads    []float64 // slowest / fastest rank, per block
	executions int
	ends       []int // end index of each pass in samples
}

func (s *series) add(perExec, block float64, n int) error {
	if !(perExec > 0) || math.IsInf(perExec, 0) {
		return fmt.Errorf("%w: %v s for one execution", measure.ErrTimer, perExec)
	}
	s.samples = append(s.samples, perExec)
	s.blocks = append(s.blocks, block)
	s.executions += n
	return nil
}

// latency returns the time of one execution over all passes, in seconds.
//
// Without graphs, it is the mean of the two lowest medians. Disturbances of host launches last tens of
// milliseconds and only make them slower, so the fastest passes are the undisturbed ones.
//
// With graphs, it is the mean over all passes, because each pass captures a new graph and captures differ.
// Passes are capped at disturbedBy times the median. For 51 cases in three runs on two H200s, this mean
// differed from run to run by 1.013 (p50) and 1.029 (p95), the mean of the two fastest by 1.017 and 1.045.
func (s *series) latency(graph bool) float64 {
	m := slices.Sorted(slices.Values(s.medians))
	if !graph {
		return measure.Mean(m[:min(len(m), 2)])
	}

	most := disturbedBy * measure.Median(m)
	for i := range m {
		m[i] = min(m[i], most)
	}
	return measure.Mean(m)
}

// replays returns the 10th and 90th percentile of the mean times of a graph's replays in one pass. ok is
// false if the pass has too few replays or used no graph.
func (s *series) replays(pass int) (low, high float64, ok bool) {
	if pass >= len(s.ends) {
		return 0, 0, false
	}

	first := 0
	if pass > 0 {
		first = s.ends[pass-1]
	}

	mine := s.samples[first:s.ends[pass]]
	if len(mine) < 2*graphBlocks || len(mine)%graphBlocks != 0 {
		return 0, 0, false
	}

	var means []float64
	for r := 0; r < len(mine); r += graphBlocks {
		means = append(means, measure.Mean(mine[r:r+graphBlocks]))
	}

	return measure.Percentile(means, 0.1), measure.Percentile(means, 0.9), true
}

// agree reports whether the two fastest passes differ by at most the relative tolerance.
func (s *series) agree(tolerance float64) bool {
	m := slices.Sorted(slices.Values(s.medians))
	return len(m) == 1 || m[1] <= m[0]*(1+tolerance)
}

func (s *series) result(graph bool, protocol string) measure.Measured {
	return measure.Measured{
		Latency:     s.latency(graph) * 1e3,
		Samples:     len(s.samples),
		RelStdev:    measure.Scatter(s.samples),
		P10:         measure.Percentile(s.samples, 0.1) * 1e3,
		P90:         measure.Percentile(s.samples, 0.9) * 1e3,
		Passes:      len(s.medians),
		PassSpread:  measure.Spread(s.medians),
		Executions:  s.executions,
		UsedGraph:   graph,
		BlockMillis: measure.Median(s.blocks) * 1e3,
		Protocol:    protocol,
	}
}

// form measures one form of a case, out of place or in place.
type form struct {
	group    *group
	clock    measure.Clock
	settings measure.Settings
	task     task
	bytes    int64
	graph    bool
	captured bool
	perExec  float64 // latest estimate in seconds
	series   series
}

// pass makes one pass: warm-up, then samples until they are stable.
func (f *form) pass(ctx context.Context) error {
	if gap := f.settings.IdleGapSeconds; gap > 0 {
		if err := f.clock.Sleep(ctx, time.Duration(gap*float64(time.Second))); err != nil {
			return err
		}
	}

	if err := f.warm(ctx); err != nil {
		return err
	}

	draw := f.block
	if f.graph {
		draw = f.replays
	}

	if f.settings.Protocol == measure.ProtocolReference {
		if err := draw(ctx); err != nil {
			return err
		}
		f.series.medians = append(f.series.medians, measure.Median(f.series.samples))
		return nil
	}

	s, first, began := f.settings, len(f.series.samples), f.clock.Now()
	for {
		if err := draw(ctx); err != nil {
			return err
		}
		mine := f.series.samples[first:]
		long := f.clock.Now()-began >= time.Duration(s.MaxPassSeconds*float64(time.Second))
		if len(mine) < s.MinSamples {
			continue
		}
		if len(mine) >= s.MaxSamples || long || measure.RelStdev(mine) <= s.TargetRelStdev {
			f.series.medians = append(f.series.medians, measure.Median(mine))
			f.series.ends = append(f.series.ends, len(f.series.samples))
			return nil
		}
	}
}

// settled reports whether the passes agree or their maximum number is reached.
func (f *form) settled() bool {
	n := len(f.series.medians)
	if f.settings.Protocol == measure.ProtocolReference {
		return n >= 1
	}
	return n >= f.settings.Passes &&
		(n >= f.settings.MaxPasses || f.series.agree(f.settings.PassTolerance))
}

// warm runs untimed executions and estimates the time of one execution.
func (f *form) warm(ctx context.Context) error {
	left := warmups
	if f.perExec == 0 && f.settings.Protocol != measure.ProtocolReference {
		// The first execution includes one-time initialization.
		for _, n := range []int{1, fewestWarm} {
			if err := f.estimate(ctx, n); err != nil {
				return err
			}
			left -= n
		}
	}

	if f.perExec > 0 {
		left = min(left, max(fewestWarm, f.within(longestWarm)))
	}

	if left > 0 {
		t := f.task
		t.Kind, t.N = taskWarm, left
		if _, err := f.group.do(ctx, t); err != nil {
			return err
		}
		f.series.executions += left
	}

	if f.graph {
		return f.warmGraph(ctx)
	}

	return nil
}

// warmGraph captures the form's graph and replays it once, which uploads it and measures the time per
// execution. The previous estimate comes from eager executions. For small messages these are dominated by
// the host and up to ten times slower, so the blocks would have too few executions. If the block size
// changes, the graph is captured again.
func (f *form) warmGraph(ctx context.Context) error {
	for first := true; ; first = false {
		if err := f.haveGraph(ctx); err != nil {
			return err
		}

		t := f.task
		t.Kind = taskReplay
		reps, err := f.group.do(ctx, t)
		if err != nil {
			return err
		}

		f.series.executions += f.task.N * graphBlocks
		if f.settings.Protocol == measure.ProtocolReference {
			return nil
		}

		slow, err := slowestRanks(reps, graphBlocks)
		if err != nil {
			return err
		}

		f.perExec = slices.Min(slow)
		if want := blockOf(f.perExec); !first || alike(want, f.task.N) {
			return nil
		}

		f.captured = false
	}
}

// blockOf returns the number of executions per block of a graph.
func blockOf(perExec float64) int {
	length := graphBlock
	if perExec < briefBelow.Seconds() {
		length = briefBlock
	}
	return min(max(1, int(math.Ceil(length.Seconds()/max(perExec, 1e-6)))), graphMost)
}

// alike reports whether two numbers of executions differ by at most a quarter.
func alike(a, b int) bool { return 4*max(a, b) <= 5*min(a, b) }

// slowestRanks returns the time of each block on its slowest rank.
func slowestRanks(reps []report, blocks int) ([]float64, error) {
	out := make([]float64, blocks)
	for _, r := range reps {
		if len(r.Samples) != blocks {
			return nil, fmt.Errorf("replays of a graph report %d times for %d blocks", len(r.Samples), blocks)
		}
		for b, s := range r.Samples {
			out[b] = max(out[b], s)
		}
	}
	return out, nil
}

// haveGraph captures the form's graph if it is not captured yet.
func (f *form) haveGraph(ctx context.Context) error {
	if f.captured {
		return nil
	}

	t := f.task
	t.Kind, t.Blocks = taskCapture, graphBlocks
	t.N = blockOf(f.perExec)
	if f.settings.Protocol == measure.ProtocolReference {
		t.N = 5
	}

	if _, err := f.group.do(ctx, t); err != nil {
		return err
	}

	f.captured = true
	f.task.N = t.N
	return nil
}

func (f *form) estimate(ctx context.Context, n int) error {
	t := f.task
	t.Kind, t.N = taskBlock, n
	reps, err := f.group.do(ctx, t)
	if err != nil {
		return err
	}

	f.series.executions += n
	f.perExec = meanSeconds(reps) / float64(n)
	return nil
}

// within returns how many executions fit into d.
func (f *form) within(d time.Duration) int {
	return int(d.Seconds() / f.perExec)
}

// iterationsFor returns how often aiconfigurator's collector executes a message in nccl-tests.
func iterationsFor(bytes int64) int {
	if bytes > bigMessage {
		return iterationsBig
	}
	return iterations
}

// block times executions like nccl-tests: with the host's clock from a synchronization of the devices until the device is idle,
// averaged over the ranks.
func (f *form) block(ctx context.Context) error {
	n := iterationsFor(f.bytes)
	if f.settings.Protocol != measure.ProtocolReference {
		n = min(n, max(fewest, f.within(longestBlock)))
	}

	t := f.task
	t.Kind, t.N = taskBlock, n
	reps, err := f.group.do(ctx, t)
	if err != nil {
		return err
	}

	slow, fast := 0.0, math.Inf(1)
	for _, r := range reps {
		slow, fast = max(slow, r.Seconds), min(fast, r.Seconds)
	}

	f.series.spreads = append(f.series.spreads, slow/fast)
	mean := meanSeconds(reps)
	f.perExec = mean / float64(n)

	return f.series.add(f.perExec, mean, n)
}

// plan returns the number of replays of a visit and the number of untimed launches before each replay.
func (f *form) plan() (times, ahead int) {
	if f.settings.Protocol == measure.ProtocolReference {
		return 1, 0
	}

	one := max(f.perExec, 1e-6) * float64(f.task.N*graphBlocks+1)
	times = graphReplays
	if f.perExec < briefBelow.Seconds() {
		ahead, one = 1, 2*one
		times = min(max(int(graphVisit.Seconds()/one), graphReplays), mostReplays)
	}
	return max(1, min(times, int(f.settings.MaxPassSeconds/one))), ahead
}

// replays replays the graph for one visit. The time of a block is that of its slowest rank.
func (f *form) replays(ctx context.Context) error {
	t := f.task
	t.Kind = taskReplay
	t.Times, t.Ahead = f.plan()
	reps, err := f.group.do(ctx, t)
	if err != nil {
		return err
	}

	f.series.executions += t.Times * t.Ahead * f.task.N * graphBlocks
	slowest, err := slowestRanks(reps, t.Times*graphBlocks)
	if err != nil {
		return err
	}

	for b, slow := range slowest {
		fast := slow
		for _, r := range reps {
			fast = min(fast, r.Samples[b])
		}
		f.series.spreads = append(f.series.spreads, slow/fast)
		if err := f.series.add(slow, slow*float64(f.task.N), f.task.N); err != nil {
			return err
		}
	}

	return nil
}

func meanSeconds(reps []report) float64 {
	var sum float64
	for _, r := range reps {
		sum += r.Seconds
	}
	return sum / float64(len(reps))
}
