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

// series measures one case: it draws samples in passes and collects their times.
type series struct {
	group    *group
	clock    measure.Clock
	settings measure.Settings
	task     task
	bytes    int64
	graph    bool
	captured bool
	perExec  float64 // latest estimate in seconds

	samples    []float64 // seconds per execution
	medians    []float64 // median of each pass
	blocks     []float64 // seconds
	spreads    []float64 // slowest / fastest rank, per block
	executions int
}

// do runs the case's task as another kind, with n executions.
func (s *series) do(ctx context.Context, kind string, n int) ([]report, error) {
	t := s.task
	t.Kind, t.N = kind, n
	return s.group.do(ctx, t)
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

// agree reports whether the two fastest passes differ by at most the relative tolerance.
func (s *series) agree(tolerance float64) bool {
	m := slices.Sorted(slices.Values(s.medians))
	return len(m) == 1 || m[1] <= m[0]*(1+tolerance)
}

func (s *series) result(graph bool) measure.Measured {
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
		Protocol:    s.settings.Protocol,
	}
}

// pass makes one pass: warm-up, then samples until they are stable.
func (s *series) pass(ctx context.Context) error {
	if gap := s.settings.IdleGapSeconds; gap > 0 {
		if err := s.clock.Sleep(ctx, time.Duration(gap*float64(time.Second))); err != nil {
			return err
		}
	}

	if err := s.warm(ctx); err != nil {
		return err
	}

	if s.graph {
		return s.sample(ctx, s.replays)
	}
	return s.sample(ctx, s.block)
}

// sample draws samples until they are stable, or once with the reference protocol.
func (s *series) sample(ctx context.Context, draw func(context.Context) error) error {
	set, first, began := s.settings, len(s.samples), s.clock.Now()
	for {
		if err := draw(ctx); err != nil {
			return err
		}

		mine := s.samples[first:]
		long := s.clock.Now()-began >= time.Duration(set.MaxPassSeconds*float64(time.Second))
		if set.Protocol == measure.ProtocolReference || len(mine) >= set.MinSamples &&
			(len(mine) >= set.MaxSamples || long || measure.RelStdev(mine) <= set.TargetRelStdev) {
			s.medians = append(s.medians, measure.Median(mine))
			return nil
		}
	}
}

// settled reports whether the passes agree or their maximum number is reached.
func (s *series) settled() bool {
	n := len(s.medians)
	if s.settings.Protocol == measure.ProtocolReference {
		return n >= 1
	}
	return n >= s.settings.Passes &&
		(n >= s.settings.MaxPasses || s.agree(s.settings.PassTolerance))
}

// warm runs untimed executions and estimates the time of one execution.
func (s *series) warm(ctx context.Context) error {
	left := warmups
	if s.perExec == 0 && s.settings.Protocol != measure.ProtocolReference {
		// The first execution includes one-time initialization.
		for _, n := range []int{1, fewestWarm} {
			if err := s.estimate(ctx, n); err != nil {
				return err
			}
			left -= n
		}
	}

	if s.perExec > 0 {
		left = min(left, max(fewestWarm, s.within(longestWarm)))
	}

	if left > 0 {
		if _, err := s.do(ctx, taskWarm, left); err != nil {
			return err
		}
		s.executions += left
	}

	if s.graph {
		return s.warmGraph(ctx)
	}

	return nil
}

// warmGraph captures the case's graph and replays it once, which uploads it and measures the time per
// execution. The previous estimate comes from eager executions. For small messages these are dominated by
// the host and up to ten times slower, so the blocks would have too few executions. If the block size
// changes, the graph is captured again.
func (s *series) warmGraph(ctx context.Context) error {
	for first := true; ; first = false {
		if err := s.haveGraph(ctx); err != nil {
			return err
		}

		reps, err := s.do(ctx, taskReplay, s.task.N)
		if err != nil {
			return err
		}

		s.executions += s.task.N * graphBlocks
		if s.settings.Protocol == measure.ProtocolReference {
			return nil
		}

		slow, err := slowestRanks(reps, graphBlocks)
		if err != nil {
			return err
		}

		s.perExec = slices.Min(slow)
		if want := blockOf(s.perExec); !first || alike(want, s.task.N) {
			return nil
		}

		s.captured = false
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
		for b, v := range r.Samples {
			out[b] = max(out[b], v)
		}
	}
	return out, nil
}

// haveGraph captures the case's graph if it is not captured yet.
func (s *series) haveGraph(ctx context.Context) error {
	if s.captured {
		return nil
	}

	t := s.task
	t.Kind, t.Blocks = taskCapture, graphBlocks
	t.N = blockOf(s.perExec)
	if s.settings.Protocol == measure.ProtocolReference {
		t.N = 5
	}

	if _, err := s.group.do(ctx, t); err != nil {
		return err
	}

	s.captured = true
	s.task.N = t.N
	return nil
}

func (s *series) estimate(ctx context.Context, n int) error {
	reps, err := s.do(ctx, taskBlock, n)
	if err != nil {
		return err
	}

	s.executions += n
	s.perExec = meanSeconds(reps) / float64(n)
	return nil
}

// within returns how many executions fit into d.
func (s *series) within(d time.Duration) int {
	return int(d.Seconds() / s.perExec)
}

// iterationsFor returns how often aiconfigurator's collector executes a message in nccl-tests.
func iterationsFor(bytes int64) int {
	if bytes > bigMessage {
		return iterationsBig
	}
	return iterations
}

// block times executions like nccl-tests: with the host's clock from a synchronization of the devices until the device
// is idle, averaged over the ranks.
func (s *series) block(ctx context.Context) error {
	n := iterationsFor(s.bytes)
	if s.settings.Protocol != measure.ProtocolReference {
		n = min(n, max(fewest, s.within(longestBlock)))
	}

	reps, err := s.do(ctx, taskBlock, n)
	if err != nil {
		return err
	}

	slow, fast := 0.0, math.Inf(1)
	for _, r := range reps {
		slow, fast = max(slow, r.Seconds), min(fast, r.Seconds)
	}

	s.spreads = append(s.spreads, slow/fast)
	mean := meanSeconds(reps)
	s.perExec = mean / float64(n)

	return s.add(s.perExec, mean, n)
}

// plan returns the number of replays of a visit and the number of untimed launches before each replay.
func (s *series) plan() (times, ahead int) {
	if s.settings.Protocol == measure.ProtocolReference {
		return 1, 0
	}

	one := max(s.perExec, 1e-6) * float64(s.task.N*graphBlocks+1)
	times = graphReplays
	if s.perExec < briefBelow.Seconds() {
		ahead, one = 1, 2*one
		times = min(max(int(graphVisit.Seconds()/one), graphReplays), mostReplays)
	}
	return max(1, min(times, int(s.settings.MaxPassSeconds/one))), ahead
}

// replays replays the graph for one visit. The time of a block is that of its slowest rank.
func (s *series) replays(ctx context.Context) error {
	t := s.task
	t.Kind = taskReplay
	t.Times, t.Ahead = s.plan()
	reps, err := s.group.do(ctx, t)
	if err != nil {
		return err
	}

	s.executions += t.Times * t.Ahead * s.task.N * graphBlocks
	slowest, err := slowestRanks(reps, t.Times*graphBlocks)
	if err != nil {
		return err
	}

	for b, slow := range slowest {
		fast := slow
		for _, r := range reps {
			fast = min(fast, r.Samples[b])
		}
		s.spreads = append(s.spreads, slow/fast)
		if err := s.add(slow, slow*float64(s.task.N), s.task.N); err != nil {
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
