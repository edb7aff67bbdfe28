package collect

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// estimated fills in how long the cases to collect are going to take: by what
// cases of the op took before that were measured in the same way, else by the
// latencies of the reference, else by the peaks of the system, else by cases that
// were measured in another way.
// Todo knows which cases are open; nil means all.
func (c *Config) estimated(pc *stage.PlanContext, cases *grid.Cases, todo *job, env *runtimes.Environment, p *stage.Plan) error {
	up := pc.Upstream(c.grid)
	if err := c.fromHistory(pc.Store, cases.Spec(), env, p.Cases, true); err != nil {
		return err
	}
	workers := c.workers(env)
	if p.Cases.Seconds == 0 && c.estimate != nil {
		c.estimateFrom(pc.Upstream(c.estimate), up.Data, env, p.Cases, workers)
	}
	if p.Cases.Seconds == 0 {
		c.fromPeaks(up, todo, env, p.Cases, workers)
	}
	if p.Cases.Seconds == 0 {
		if err := c.fromHistory(pc.Store, cases.Spec(), env, p.Cases, false); err != nil {
			return err
		}
	}
	if p.Cases.Seconds > 0 && c.onGPUs() {
		p.Cases.GPUs, p.Cases.PerGPU = workers, !c.kind().OneWorker(c.runtime) && !c.Elsewhere()
		if spec, _ := c.peaks(env); spec != nil {
			p.Cases.NodeGPUs = spec.Node.NumGPUsPerNode
		}
		if c.kind().OneWorker(c.runtime) {
			p.Cases.GPUs = max(rules.MostGPUs(up.Data.Planned), len(c.runtime.Devices), 2)
		}
	}
	if c.Elsewhere() && p.Cases.Seconds > 0 && p.Request != nil {
		n := p.Request.AtOnce
		p.Cases.Seconds /= float64(n)
		p.Cases.Basis += fmt.Sprintf(", %d jobs at once", n)
		p.Cases.GPUs *= n
	}
	return nil
}

func (c *Config) onGPUs() bool { return c.kind().OnGPUs(c.runtime) }

// workers is how many cases are measured side by side: what is known of the
// machine, else what the runtime block says.
func (c *Config) workers(env *runtimes.Environment) int {
	if env != nil && env.Workers > 0 {
		return env.Workers
	}
	if c.kind().OneWorker(c.runtime) {
		return 1
	}
	return max(1, len(c.runtime.Devices)) * max(1, c.runtime.Workers)
}

// fewest is how many cases a sample for an estimate has at least, so that planning
// a million of them stays quick.
const fewest = 20_000

// fromPeaks works the time for the cases out from the peaks of the system, what
// kernels mostly reach of them, and what measuring a case costs beside its
// executions.
func (c *Config) fromPeaks(up *stage.Plan, todo *job, env *runtimes.Environment, counts *stage.CaseCounts, workers int) {
	spec, name := c.peaks(env)
	if spec == nil || up == nil || up.Data == nil || up.Data.Planned == nil || counts.Collect == 0 {
		return
	}
	perf, op := up.Data.Info.Perf, c.opName(up.Data.Info.Op)
	if each := c.kind().OpSeconds(op, c.settings); each > 0 {
		counts.Seconds = each * float64(counts.Collect) / float64(workers)
		counts.Basis = fmt.Sprintf("no earlier run: every case takes %.3g s, whatever its kernels take", each)
		return
	}
	if !rules.Estimates(perf, op) {
		return // before the points of its cases are made
	}
	kernels, ok := rules.Likely(sampled(up, todo), perf, op, c.runtime.Package, spec)
	if !ok {
		return
	}
	total, known := 0.0, 0
	for _, k := range kernels {
		if each := c.kind().CaseSeconds(c.runtime, c.settings, k); k.Seconds > 0 && each > 0 {
			total += each
			known++
		}
	}
	if known == 0 {
		return
	}
	// A case with a sweep measures all its points.
	points := max(float64(counts.Rows), float64(counts.Collect))
	counts.Seconds = total/float64(known)*points/float64(workers) +
		c.kind().SharedSeconds(c.runtime, c.settings, kernels, points/float64(workers))
	counts.Basis = fmt.Sprintf("no earlier run: kernel times by the peaks of %s, and what was measured beside them on other machines; starting and compiling not counted", name)
	if workers > 1 {
		counts.Basis += fmt.Sprintf(", %d workers", workers)
	}
}

// sampled returns the open cases of a grid, or some of them evenly spread, with the
// points that they sweep.
func sampled(up *stage.Plan, todo *job) arrow.Record {
	if todo != nil {
		return todo.sample(fewest)
	}
	if cases := grids.CasesOf(up); cases != nil {
		return cases.PointSample(cases.Rows() / fewest)
	}
	t := up.Data.Planned
	step := int(t.NumRows()) / fewest
	if step < 2 {
		return t
	}
	var rows []int
	for i := 0; i < int(t.NumRows()); i += step {
		rows = append(rows, i)
	}
	return table.Take(t, rows)
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

// peaks are those of the device that measures: the system that the plan names,
// or the one that the device belongs to.
func (c *Config) peaks(env *runtimes.Environment) (*systems.Spec, string) {
	if !c.onGPUs() {
		flops, bytes := c.kind().Peaks()
		if flops == 0 {
			return nil, ""
		}
		return &systems.Spec{GPU: systems.GPU{MemBW: bytes, BFloat16Flops: flops, Float32Flops: flops}}, "a common processor"
	}
	if c.spec != nil {
		return c.spec, c.spec.Name
	}
	name := ""
	if v := c.runtime.Options["system"]; v != cty.NilVal && !v.IsNull() && v.IsKnown() && v.Type() == cty.String {
		name = v.AsString()
	} else if env != nil {
		name, _ = systems.ForDevice(env.Device)
	}
	if name == "" {
		return nil, ""
	}
	spec, err := systems.Load(name)
	if err != nil {
		return nil, "" // said where it is used
	}
	return spec, name
}

// estimateFrom works the time for the cases out from the latencies of another
// table with the same columns, for plans that have no history of their own.
func (c *Config) estimateFrom(ref *stage.Plan, planned *stage.Dataset, env *runtimes.Environment, counts *stage.CaseCounts, workers int) {
	if ref == nil || ref.Data == nil || ref.Data.Table == nil || planned == nil || planned.Planned == nil || counts.Collect == 0 {
		return
	}
	t, cases := ref.Data.Table, planned.Planned
	var shared []string
	for _, name := range planned.Info.Params {
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
	want, err := table.Keys(cases, shared...)
	if err != nil {
		return
	}
	// Peaks that are known say which cases draw much power.
	var likely []rules.Kernel
	if spec, _ := c.peaks(env); spec != nil {
		likely, _ = rules.Likely(t, ref.Data.Info.Perf, c.opName(planned.Info.Op), c.runtime.Package, spec)
	}
	seconds, kernels := map[string]float64{}, map[string]rules.Kernel{}
	for i, k := range have {
		if _, dup := seconds[k]; !dup && !latency.Null(i) && !math.IsNaN(latency.Values[i]) {
			of := rules.Kernel{Seconds: latency.Values[i] * unit, ComputeBound: likely != nil && likely[i].ComputeBound}
			seconds[k], kernels[k] = c.kind().CaseSeconds(c.runtime, c.settings, of), of
		}
	}
	total, matched := 0.0, 0
	var wanted []rules.Kernel
	for _, k := range want {
		if s, ok := seconds[k]; ok {
			total += s
			matched++
			wanted = append(wanted, kernels[k])
		}
	}
	if matched == 0 {
		return
	}
	each := float64(counts.Collect) / float64(workers)
	counts.Seconds = total/float64(matched)*each + c.kind().SharedSeconds(c.runtime, c.settings, wanted, each)
	counts.Basis = fmt.Sprintf("published latencies of %d of %d cases, as often as the measure block executes them; starting, setting up and failing not counted", matched, len(want))
}
