package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/measure"
	"aicplan/engine/checkpoint"
	"aicplan/sink/base/textutil"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// estimate estimates how long the open cases take. The sources are, in this order: earlier cases of the op that were
// measured in the same way, the latencies of the reference, the peaks of the system, and cases that were measured in
// another way.
func (p *planning) estimate() error {
	p.atOnce = p.workers(p.env)
	if err := p.fromHistory(true); err != nil {
		return err
	}

	if p.counts.Seconds == 0 {
		p.fromReference()
	}
	if p.counts.Seconds == 0 {
		p.fromPeaks()
	}
	if p.counts.Seconds == 0 {
		if err := p.fromHistory(false); err != nil || p.counts.Seconds == 0 {
			return err
		}
	}

	if p.onGPUs() {
		one := p.kind().HasOneWorker(p.runtime)
		p.counts.GPUs, p.counts.PerGPU = p.atOnce, !one && !p.Elsewhere()
		if spec, _ := p.peaks(); spec != nil {
			p.counts.NodeGPUs = spec.Node.NumGPUsPerNode
		}
		if one {
			p.counts.GPUs = max(rules.MostGPUs(p.up.Data.Planned), len(p.runtime.Devices), 2)
		}
	}
	if p.jobs != nil {
		n := p.plan.Request.AtOnce
		p.counts.Seconds /= float64(n)
		p.basis(", %d jobs at once", n)
		p.counts.GPUs *= n
	}
	return nil
}

// basis adds to what the estimate is based on.
func (p *planning) basis(format string, args ...any) { p.counts.Basis += fmt.Sprintf(format, args...) }

// together adds to the basis how many cases are measured at once.
func (p *planning) together() {
	if p.atOnce > 1 {
		p.basis(", %d workers", p.atOnce)
	}
}

func (c *Config) onGPUs() bool { return c.kind().OnGPUs(c.runtime) }

// workers returns the number of cases that are measured concurrently: what is known of the machine, or what the
// runtime block sets. Without a machine, a GPU counts once: its workers prepare cases that it measures one by one.
func (c *Config) workers(env *runtimes.Environment) int {
	if env != nil && env.Workers > 0 {
		return env.Workers
	}
	if c.kind().HasOneWorker(c.runtime) {
		return 1
	}
	if c.onGPUs() {
		return max(1, len(c.runtime.Devices))
	}
	return max(1, c.runtime.Workers)
}

// fewest is the minimum number of units in a sample for an estimate, so that planning a million of them is quick.
const fewest = 20_000

// fromPeaks estimates the time from the peaks of the system, the share of them that kernels reach, and the cost of
// measuring a case besides its executions.
func (p *planning) fromPeaks() {
	spec, name := p.peaks()
	perf, op := p.up.Data.Info.Perf, p.opName(p.up.Data.Info.Op)
	if spec == nil {
		return
	}
	if fixed := p.kind().OpSeconds; fixed != nil && fixed(op, p.settings) > 0 {
		each := fixed(op, p.settings)
		p.counts.Seconds = each * float64(p.counts.Collect) / float64(p.atOnce)
		p.basis("no earlier run: every case takes %.3g s, whatever its kernels take", each)
		return
	}
	if !rules.Estimates(perf, op) {
		return
	}
	kernels, ok := rules.Likely(p.job.sample(), perf, op, p.runtime.Package, spec)
	if !ok {
		return
	}

	// A case with a sweep measures all its points.
	if p.timeOf(kernels, max(p.counts.Rows, p.counts.Collect)) {
		p.basis(
			"no earlier run: kernel times by the peaks of %s, and what was measured beside them on other machines; starting "+
				"and compiling not counted",
			name,
		)
		p.together()
	}
}

// timeOf sets the time to that of n cases whose kernels are like those of a sample. It reports whether it is known.
func (p *planning) timeOf(sample []rules.Kernel, n int) bool {
	seconds := p.kind().CaseSeconds
	if seconds == nil {
		return false
	}

	total, known := 0.0, 0
	bind, _ := p.bind.(map[string]any)
	for _, k := range sample {
		_, k.Collector = bind["run"]
		_, k.Cold = bind["cache"]
		if each := seconds(p.runtime, p.settings, k); k.Seconds > 0 && each > 0 {
			total += each
			known++
		}
	}
	if known > 0 {
		p.counts.Seconds = total / float64(known) * float64(n) / float64(p.atOnce)
	}
	return known > 0
}

// sample returns fewest or more open units, or all if there are fewer, evenly spread.
func (j *job) sample() arrow.Record {
	var rows, points []int32
	for _, u := range j.all() {
		if u.state == open {
			rows, points = append(rows, u.task), append(points, u.point)
		}
	}

	if step := len(rows) / fewest; step > 1 {
		kept := 0
		for i := 0; i < len(rows); i += step {
			rows[kept], points[kept] = rows[i], points[i]
			kept++
		}
		rows, points = rows[:kept], points[:kept]
	}
	return j.cases.PointsAt(rows, points)
}

// peaks returns the peaks of the device that measures: the system that the plan names, or the one that the device
// belongs to. It returns nil if they are unknown.
func (p *planning) peaks() (*systems.Spec, string) {
	if !p.onGPUs() {
		about := p.kind()
		if about.PeakFlops == 0 {
			return nil, ""
		}
		return &systems.Spec{GPU: systems.GPU{MemBW: about.PeakBytes, BFloat16Flops: about.PeakFlops,
			Float32Flops: about.PeakFlops}}, "a common processor"
	}
	if p.spec != nil {
		return p.spec, p.spec.Name
	}

	name := option[string](p.runtime, "system")
	if name == "" && p.env != nil {
		name, _ = systems.ForDevice(p.env.Device)
	}
	if name == "" {
		return nil, ""
	}

	spec, err := systems.Load(name)
	if err != nil {
		return nil, "" // the user of the system reports it
	}
	return spec, name
}

// timeUnits are the units of latencies in seconds.
var timeUnits = map[string]float64{"ms": 1e-3, "us": 1e-6}

// fromReference estimates the time from the latencies of another table with the same columns.
func (p *planning) fromReference() {
	if p.Config.estimate == nil {
		return
	}
	ref, data := p.pc.Upstream(p.Config.estimate), p.up.Data
	if ref == nil || ref.Data == nil || ref.Data.Table == nil || data.Planned == nil {
		return
	}

	t := ref.Data.Table
	shared := slices.DeleteFunc(slices.Clone(data.Info.Params), func(name string) bool { return !table.Has(t, name) })
	metric := ref.Data.Info.Tables().SchemaOf(ref.Data.Info.Perf).Primary()
	unit, isTime := timeUnits[metric.Unit]
	if len(shared) == 0 || !isTime {
		return
	}
	latency, err := table.Float64s(t, metric.Name)
	if err != nil {
		return // it is no table of the same cases
	}
	have, want := table.Keys(t, shared...), table.Keys(data.Planned, shared...)

	// The peaks show which cases draw much power.
	var likely []rules.Kernel
	if spec, _ := p.peaks(); spec != nil {
		likely, _ = rules.Likely(t, ref.Data.Info.Perf, p.opName(data.Info.Op), p.runtime.Package, spec)
	}

	kernels := map[string]rules.Kernel{}
	for i, k := range have {
		v, ok := latency.At(i)
		if _, dup := kernels[k]; !dup && ok && !math.IsNaN(v) {
			kernels[k] = rules.Kernel{Seconds: v * unit, ComputeBound: likely != nil && likely[i].ComputeBound}
		}
	}

	var wanted []rules.Kernel
	for _, k := range want {
		if kernel, ok := kernels[k]; ok {
			wanted = append(wanted, kernel)
		}
	}

	if p.timeOf(wanted, p.counts.Collect) {
		p.basis(
			"published latencies of %d of %d cases, as often as the measure block executes them; starting, setting up and "+
				"failing not counted",
			len(wanted),
			len(want),
		)
	}
}

// historySample is the maximum number of entries that an estimate reads.
const historySample = 2000

// took contains wall times of cases in seconds. first are the cases that were the first of a process; later are the
// others.
type took struct{ first, later []float64 }

func (t *took) all() []float64 { return slices.Concat(t.first, t.later) }

// typical returns the median duration of a case in seconds, and how much longer the first case of a process takes.
// start is 0 if it is less than a second or unknown.
func (t *took) typical() (median, start float64) {
	if len(t.first) > 0 && len(t.later) > 0 {
		median = measure.Median(t.later)
		if start = measure.Median(t.first) - median; start >= 1 {
			return median, start
		}
	}
	return measure.Median(t.all()), 0
}

// history reads the wall times of earlier cases from a journal.
func history(journal *checkpoint.Journal) (out took, err error) {
	n := 0
	for e, err := range journal.All() {
		if err != nil {
			return took{}, err
		}
		if n++; n > historySample {
			break
		}
		if e.Kind != checkpoint.Measured {
			continue
		}

		d, err := rows.Decode(e)
		if err != nil {
			return took{}, err
		}
		if d.Seconds <= 0 {
			continue
		}

		if d.First {
			out.first = append(out.first, d.Seconds)
		} else {
			out.later = append(out.later, d.Seconds)
		}
	}
	return out, nil
}

// fromHistory estimates the time from earlier cases of the op in this environment, or from cases of another one. If
// alike is true, those were measured with the settings that change the duration.
func (p *planning) fromHistory(alike bool) error {
	secs, where, err := p.opHistory(alike)
	n := len(secs.first) + len(secs.later)
	if err != nil || n == 0 {
		return err
	}

	median, start := secs.typical()
	p.counts.Seconds = median*float64(p.counts.Collect)/float64(p.atOnce) + start
	p.basis("median of %d earlier cases of %s%s: %.3g s", n, p.cases.Spec.Op, where, median)
	p.together()
	if start > 0 {
		p.basis(", and %.3g s more for the first one of each worker", start)
	}
	return nil
}

// opHistory returns the wall times of earlier cases of the op. where is appended to the name of the op in messages.
func (p *planning) opHistory(alike bool) (secs took, where string, err error) {
	spec := p.cases.Spec
	if p.env != nil {
		journal, _, err := p.journal(p.pc.Store, spec, p.env)
		if err == nil {
			secs, err = history(journal)
		}
		if err != nil || len(secs.all()) > 0 {
			return secs, "", err
		}
	}

	all, err := p.pc.Store.Contexts(spec.Op)
	for _, info := range all {
		var jc checkpoint.Context
		var times durationContext
		if err := errors.Join(json.Unmarshal(info.JSON, &jc), json.Unmarshal(info.JSON, &times)); err != nil {
			return took{}, "", fmt.Errorf("journal of %s: %w", spec.Op, err)
		}
		if !p.measuresLike(&times, alike) {
			continue
		}

		journal, err := p.pc.Store.Journal(jc)
		if err == nil {
			secs, err = history(journal)
		}
		if err != nil || len(secs.all()) > 0 {
			return secs, " under other conditions", err
		}
	}
	return took{}, "", err
}

// durationContext is what the duration of a case depends on.
type durationContext struct {
	Runtime   string           `json:"runtime"`
	Framework string           `json:"framework"`
	Measure   measure.Settings `json:"measure"`
	Extra     struct {
		Instrument int `json:"instrument"`
	} `json:"extra"`
}

// measuresLike reports whether cases of a context may take about as long as here: they have the same kind of runtime
// and framework. If alike is true, they also have the same measuring code and settings that affect the duration.
func (c *Config) measuresLike(of *durationContext, alike bool) bool {
	other := of.Framework != "" && c.runtime.Framework != "" && of.Framework != c.runtime.Framework
	if of.Runtime != c.runtime.Kind || other {
		return false
	}
	if !alike {
		return true
	}
	want, ok := c.measured().(measure.Settings)
	return of.Extra.Instrument == c.kind().Instrument && (!ok || costs(of.Measure) == costs(want))
}

// costs returns s reduced to the settings that affect the duration of a case, which are those that kinds
// use in CaseSeconds. The reference protocol uses only few of them.
func costs(s measure.Settings) measure.Settings {
	of := measure.Settings{Protocol: s.Protocol, OperatingPoint: s.OperatingPoint, WarmupSeconds: s.WarmupSeconds,
		Power: s.Power}
	if s.Power {
		of.PowerMinSeconds = s.PowerMinSeconds
	}
	if s.Protocol != measure.ProtocolReference {
		of.Passes, of.MinSamples, of.MinBlockSeconds, of.IdleGapSeconds = s.Passes, s.MinSamples,
			s.MinBlockSeconds, s.IdleGapSeconds
	}
	return of
}

// timed compares the estimated time of the largest task with the time limit of a task, and adds a
// warning if it is longer.
func (p *planning) timed() {
	limit, usable := p.place.Limit.Seconds(), (p.place.Limit - p.place.Drain).Seconds()
	if limit == 0 || p.counts.Seconds <= 0 {
		return
	}
	// Seconds assumes jobs that run in parallel.
	each := p.counts.Seconds * float64(p.plan.Request.AtOnce) / float64(p.counts.Collect)
	needs := each * float64(p.jobs.largest)
	p.plan.Request.TaskSeconds, p.plan.Request.TaskLimit = needs, usable
	if needs <= usable {
		return
	}

	where := fmt.Sprintf("%s (%s:%d)", p.place.Address, p.place.Range.Filename, p.place.Range.Start.Line)
	has := fmt.Sprintf("a task takes cases for %s (time %s less drain)", span(usable), span(limit))
	// A case that is running when the signal arrives may also use the drain time.
	if alone := each * float64(max(1, p.atOnce)); alone > limit {
		p.warn(
			"%s: a single case is estimated to take %s, and %s, so tasks may end without any row: raise time to %s or more",
			where,
			span(alone),
			has,
			enough(alone, p.place.Drain),
		)
		return
	}

	p.warn(
		"%s: the largest task has %s, estimated to take %s, and %s: it would be started again %d times; more tasks, or "+
			"time %q, would fit",
		where,
		textutil.Some(p.jobs.largest, "case"),
		span(needs),
		has,
		int(math.Ceil(needs/usable))-1,
		enough(needs, p.place.Drain),
	)
}

// enough returns a time limit in Slurm's notation for so many seconds of cases.
func enough(seconds float64, drain time.Duration) string {
	minutes := int64(math.Ceil((seconds + drain.Seconds()) / 60))
	text := fmt.Sprintf("%02d:%02d:00", minutes/60%24, minutes%60)
	if days := minutes / (24 * 60); days > 0 {
		text = fmt.Sprintf("%d-%s", days, text)
	}
	return text
}

// span formats seconds like textutil.Duration, with fractions below a minute.
func span(seconds float64) string {
	if math.Round(seconds) < 60 {
		return fmt.Sprintf("%.3gs", seconds)
	}
	return textutil.Duration(seconds)
}
