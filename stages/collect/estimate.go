package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/engine/checkpoint"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// estimate estimates how long the open cases take. The sources are, in this order: earlier cases of the op that were
// measured in the same way, the latencies of the reference, the peaks of the system, and cases that were measured in another way.
func (p *planning) estimate() error {
	workers := p.workers(p.env)
	if err := p.fromHistory(workers, true); err != nil {
		return err
	}
	if p.counts.Seconds == 0 && p.Config.estimate != nil {
		p.fromReference(workers)
	}
	if p.counts.Seconds == 0 {
		p.fromPeaks(workers)
	}
	if p.counts.Seconds == 0 {
		if err := p.fromHistory(workers, false); err != nil || p.counts.Seconds == 0 {
			return err
		}
	}
	if p.onGPUs() {
		one := p.kind().OneWorker(p.runtime)
		p.counts.GPUs, p.counts.PerGPU = workers, !one && !p.Elsewhere()
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
		p.counts.Basis += fmt.Sprintf(", %d jobs at once", n)
		p.counts.GPUs *= n
	}
	return nil
}

func (c *Config) onGPUs() bool { return c.kind().OnGPUs(c.runtime) }

// workers returns the number of cases that are measured concurrently: what is known of the machine, or what the
// runtime block sets.
func (c *Config) workers(env *runtimes.Environment) int {
	if env != nil && env.Workers > 0 {
		return env.Workers
	}
	if c.kind().OneWorker(c.runtime) {
		return 1
	}
	return max(1, len(c.runtime.Devices)) * max(1, c.runtime.Workers)
}

// fewest is the minimum number of cases in a sample for an estimate, so that planning a million of them is quick.
const fewest = 20_000

// fromPeaks estimates the time from the peaks of the system, the share of them that kernels reach, and the cost of
// measuring a case besides its executions.
func (p *planning) fromPeaks(workers int) {
	spec, name := p.peaks()
	perf, op := p.up.Data.Info.Perf, p.opName(p.up.Data.Info.Op)
	if spec == nil {
		return
	}
	if each := p.kind().OpSeconds(op, p.settings); each > 0 {
		p.counts.Seconds = each * float64(p.counts.Collect) / float64(workers)
		p.counts.Basis = fmt.Sprintf("no earlier run: every case takes %.3g s, whatever its kernels take", each)
		return
	}
	if !rules.Estimates(perf, op) {
		return
	}
	kernels, ok := rules.Likely(p.job.sample(fewest), perf, op, p.runtime.Package, spec)
	if !ok {
		return
	}

	// A case with a sweep measures all its points.
	points := max(float64(p.counts.Rows), float64(p.counts.Collect))
	p.counts.Seconds = p.timeOf(kernels, points/float64(workers))
	if p.counts.Seconds == 0 {
		return
	}
	p.counts.Basis = fmt.Sprintf("no earlier run: kernel times by the peaks of %s, and what was measured beside them on other machines; starting and compiling not counted", name)
	if workers > 1 {
		p.counts.Basis += fmt.Sprintf(", %d workers", workers)
	}
}

// timeOf returns the time in seconds of cases whose kernels are like those of a sample. It is 0 if it is unknown.
func (p *planning) timeOf(sample []rules.Kernel, cases float64) float64 {
	total, known := 0.0, 0
	for _, k := range sample {
		if each := p.kind().CaseSeconds(p.runtime, p.settings, k); k.Seconds > 0 && each > 0 {
			total += each
			known++
		}
	}
	if known == 0 {
		return 0
	}
	return total / float64(known) * cases
}

// sample returns at least n open units, or all if there are fewer, evenly spread.
func (j *job) sample(n int) arrow.Record {
	var rows, points []int32
	for i := range j.units {
		if j.units[i].state == open {
			rows, points = append(rows, j.units[i].task), append(points, j.units[i].point)
		}
	}

	if step := len(rows) / n; step > 1 {
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
		flops, bytes := p.kind().Peaks()
		if flops == 0 {
			return nil, ""
		}
		return &systems.Spec{GPU: systems.GPU{MemBW: bytes, BFloat16Flops: flops, Float32Flops: flops}}, "a common processor"
	}
	if p.spec != nil {
		return p.spec, p.spec.Name
	}

	name := ""
	if v := p.runtime.Options["system"]; v != cty.NilVal && !v.IsNull() && v.IsKnown() && v.Type() == cty.String {
		name = v.AsString()
	} else if p.env != nil {
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

// fromReference estimates the time from the latencies of another table with the same columns.
func (p *planning) fromReference(workers int) {
	ref, data := p.pc.Upstream(p.Config.estimate), p.up.Data
	if ref == nil || ref.Data == nil || ref.Data.Table == nil || data.Planned == nil {
		return
	}

	t := ref.Data.Table
	var shared []string
	for _, name := range data.Info.Params {
		if table.Has(t, name) {
			shared = append(shared, name)
		}
	}

	metric := ref.Data.Info.Tables().SchemaOf(ref.Data.Info.Perf).Primary()
	unit, isTime := map[string]float64{"ms": 1e-3, "us": 1e-6}[metric.Unit]
	latency, err := table.Float64s(t, metric.Name)
	if err != nil || len(shared) == 0 || !isTime {
		return
	}
	have, err := table.Keys(t, shared...)
	if err != nil {
		return
	}
	want, err := table.Keys(data.Planned, shared...)
	if err != nil {
		return
	}

	// The peaks show which cases draw much power.
	var likely []rules.Kernel
	if spec, _ := p.peaks(); spec != nil {
		likely, _ = rules.Likely(t, ref.Data.Info.Perf, p.opName(data.Info.Op), p.runtime.Package, spec)
	}

	kernels := map[string]rules.Kernel{}
	for i, k := range have {
		if _, dup := kernels[k]; !dup && !latency.Null(i) && !math.IsNaN(latency.Values[i]) {
			kernels[k] = rules.Kernel{Seconds: latency.Values[i] * unit, ComputeBound: likely != nil && likely[i].ComputeBound}
		}
	}

	var wanted []rules.Kernel
	for _, k := range want {
		if kernel, ok := kernels[k]; ok {
			wanted = append(wanted, kernel)
		}
	}

	if p.counts.Seconds = p.timeOf(wanted, float64(p.counts.Collect)/float64(workers)); p.counts.Seconds > 0 {
		p.counts.Basis = fmt.Sprintf("published latencies of %d of %d cases, as often as the measure block executes them; starting, setting up and failing not counted",
			len(wanted), len(want))
	}
}

// historySample is the maximum number of entries that an estimate reads.
const historySample = 2000

// took contains wall times of cases in seconds.
type took struct {
	all []float64
	// first are the cases that were the first of a process; later are the others.
	first, later []float64
}

// typical returns the median duration of a case in seconds, and how much longer the first case of a process takes.
// start is 0 if it is less than a second or unknown.
func (t *took) typical() (median, start float64) {
	if len(t.first) > 0 && len(t.later) > 0 {
		median = measure.Median(t.later)
		if start = measure.Median(t.first) - median; start >= 1 {
			return median, start
		}
	}
	return measure.Median(t.all), 0
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

		out.all = append(out.all, d.Seconds)
		if d.First {
			out.first = append(out.first, d.Seconds)
		} else {
			out.later = append(out.later, d.Seconds)
		}
	}
	return out, nil
}

// fromHistory estimates the time from earlier cases of the op in this environment, or in another one. If alike is true,
// cases that were measured with settings that change the duration are not used.
func (p *planning) fromHistory(workers int, alike bool) error {
	secs, where, err := p.opHistory(alike)
	if err != nil || len(secs.all) == 0 {
		return err
	}

	median, start := secs.typical()
	p.counts.Seconds = median*float64(p.counts.Collect)/float64(workers) + start
	p.counts.Basis = fmt.Sprintf("median of %d earlier cases of %s%s: %.3g s", len(secs.all), p.cases.Spec().Op, where,
		median)
	if workers > 1 {
		p.counts.Basis += fmt.Sprintf(", %d workers", workers)
	}
	if start > 0 {
		p.counts.Basis += fmt.Sprintf(", and %.3g s more for the first one of each worker", start)
	}
	return nil
}

// opHistory returns the wall times of earlier cases of the op. where is appended to the name of the op in messages.
func (p *planning) opHistory(alike bool) (secs took, where string, err error) {
	spec := p.cases.Spec()
	if p.env != nil {
		journal, _, err := p.journal(p.pc.Store, spec, p.env)
		if err != nil {
			return took{}, "", err
		}
		if secs, err = history(journal); err != nil || len(secs.all) > 0 {
			return secs, "", err
		}
	}

	all, err := p.pc.Store.Contexts(spec.Op)
	if err != nil {
		return took{}, "", err
	}
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
		if err != nil {
			return took{}, "", err
		}
		if secs, err = history(journal); err != nil || len(secs.all) > 0 {
			return secs, " under other conditions", err
		}
	}
	return took{}, "", nil
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
	return of.Extra.Instrument == c.about().Instrument && (!ok || costs(of.Measure) == costs(want))
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
