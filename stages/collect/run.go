package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
	"aicplan/stages/telemetry"
)

// running is one run of the stage.
type running struct {
	*Config
	rc       *stage.RunContext
	planned  *Measurement
	job      *job
	env      *runtimes.Environment
	journal  *checkpoint.Journal
	pool     *worker.Pool
	watching *telemetry.Watch
	part     *Part                  // of a task; nil if this process has all cases
	refusal  error                  // why results are not accepted any more
	accepted map[*worker.Hello]bool // workers with the environment of the first one
	shown    map[string]bool        // lines of workers that were shown
	ran      bool                   // cases were tried
	reopened bool                   // units that were reused are open again
	stopText string                 // why the ramp stopped, or ""
	reused   int                    // units
	now      int                    // units measured by this run

	remembered bool
}

// start returns a run of the stage with the cases of its plan, those of the expected environment's journal closed.
// restrict, if not nil, excludes cases.
func (c *Config) start(ctx context.Context, rc *stage.RunContext, part *Part) (*running, error) {
	c.pinned = true
	r := &running{Config: c, rc: rc, part: part, shown: map[string]bool{}, accepted: map[*worker.Hello]bool{}}
	if r.planned = MeasurementOf(rc.Plan); r.planned == nil {
		return nil, errors.New("the cases are not known; the plan must be made again")
	}

	var err error
	if r.job, err = c.newJob(r.planned, rc.Options); err != nil {
		return nil, err
	}
	r.job.demands = r.demands()
	if part != nil {
		part.others = r.job.restrict(part.Places)
	}

	if env, _ := r.expect(ctx, rc.Store, rc.Address, rc.PlanDir, r.job.cases); env != nil {
		return r, r.useEnvironment(env)
	}
	return r, nil
}

// Run implements stage.Stage.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	r, err := c.start(ctx, rc, nil)
	if err != nil {
		return nil, err
	}
	// Pools keep references to the settings of their workers, and with them to r.
	defer func() { r.job = nil }()

	if r.env == nil || len(r.job.todo()) > 0 {
		var out *stage.Outcome
		if c.Elsewhere() {
			err = r.distribute(ctx)
		} else {
			out, err = r.collect(ctx)
		}
		if err != nil {
			return r.storedCounts(), err
		}

		if out != nil {
			out.Counts.Planned = len(r.job.units)
			return out, nil
		}
	}

	return r.finish()
}

// message shows a line to the user.
func (r *running) message(level, format string, args ...any) {
	r.rc.Events.Message(r.rc.Address, level, fmt.Sprintf(format, args...))
}

// demands returns the columns that workers must return. Constants of the grid apply to every row and are left out. Rows
// of open tables, such as those of servers, have no demands.
func (r *running) demands() []string {
	if t, ok := r.tables.Lookup(r.perfTable(r.planned.info.Perf)); ok && t.Open {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.rc.Plan.Demands), func(name string) bool {
		return slices.ContainsFunc(r.job.cases.Spec.Constants, func(k grid.Constant) bool { return k.Name == name })
	})
}

// storedCounts returns the counts of stored results when the run fails, for its last line. The next run reuses them. It
// returns nil if this run added none.
func (r *running) storedCounts() *stage.Outcome {
	if r.now == 0 {
		return nil
	}
	return &stage.Outcome{Counts: stage.Counts{Cases: r.job.asked(), Planned: len(r.job.units), Measured: r.now,
		Reused: r.reused}}
}

// useEnvironment switches to an environment and closes the units that its journal contains.
func (r *running) useEnvironment(env *runtimes.Environment) error {
	journal, _, err := r.Config.journal(r.rc.Store, r.job.cases.Spec, env)
	if err != nil {
		return err
	}

	r.env, r.journal = env, journal
	r.measuredIn.Store(env)
	before := r.job.tally().Measured
	r.job.forget()
	if err := r.job.reuse(journal, r.rc.Options, r.limits.TripAfter); err != nil {
		return err
	}
	r.reused = r.job.tally().Measured
	r.reopened = r.reopened || r.reused < before
	return nil
}

// collect measures the open cases. If the outcome is not nil, the stage ends with it.
func (r *running) collect(ctx context.Context) (*stage.Outcome, error) {
	if r.rc.Stopped() {
		return nil, r.giveUp()
	}
	if m := r.pools.Lacking(ctx, r.runtime); m != nil {
		return Needs(r.runtime, m.What+"; to do: "+m.Fix), nil
	}
	if h := r.hosted(); h != nil {
		_, err := runtimes.CheckoutLacks(r.runtime, *h)
		if m, ok := errors.AsType[*runtimes.Missing](err); ok && m.Fix != "" {
			return nil, fmt.Errorf("%w; to do: %s", err, m.Fix)
		}
		if err != nil {
			return nil, err
		}
	}

	set := worker.Settings{Configure: worker.Configure{Reads: r.readFiles()}, Log: r.workerLog}
	w, needs, err := r.startWorkers(ctx, r.rc, set, len(r.job.todo()), r.planned.op(), r.planned.op())
	switch {
	case errors.Is(err, context.Canceled) && r.rc.Stopped():
		return nil, r.giveUp()
	case err != nil || needs != nil:
		return needs, err
	}
	r.pool = w.Pool
	if err := r.acceptEnvironment(w); err != nil {
		return nil, err
	}

	for {
		r.reopened = false
		out, err := r.refused(r.measure(ctx, w.Settings))
		if out != nil || err != nil || !r.reopened || r.rc.Stopped() {
			return out, err
		}
	}
}

// workerLog shows a line of a worker.
func (r *running) workerLog(slot, level, text string) {
	switch level {
	case "trace":
		return
	case stage.MessageStatus, stage.MessageShow:
		r.message(level, "%s", text)
		return
	}

	r.rc.Events.Emit(r.rc.Address, "worker", map[string]any{"worker": slot, "level": level, "text": text})
	if level != "warn" && level != "error" {
		return
	}

	// Fresh processes of every slot repeat the same line, so show it once.
	line := firstLine(text)
	if key := level + digits.ReplaceAllString(line, "#"); !r.shown[key] {
		r.shown[key] = true
		r.message(level, "%s: %s", slot, line)
	}
}

// measure measures the open cases in the environment that the workers have reported.
func (r *running) measure(ctx context.Context, set worker.Settings) error {
	if r.part != nil {
		r.part.arrived(r.env)
		if len(r.job.todo()) == 0 {
			return nil
		}
	}
	if err := r.withdraw(); err != nil {
		return err
	}
	order, err := r.order()
	if err != nil {
		return err
	}
	earlier, err := history(r.journal)
	if err != nil {
		return err
	}

	k := newKeeper(r)
	src := newSource(r, order, earlier.all(), k)
	stopWatching, err := r.watch(ctx)
	if err != nil {
		return err
	}

	r.ran = true
	if r.part == nil {
		env := *r.env
		env.Code = maps.Clone(env.Code)
		go r.pools.Ask(r.rc.Store, r.runtime, env)
	}
	runErr := r.pool.Run(ctx, set, src)
	stopWatching()
	r.pools.Release(r.runtime)
	r.stopText = src.schedule.Stopped

	now, storeErr := k.wait()
	r.now += now
	if r.journal.Len() > 0 && r.part == nil {
		r.remember()
	}

	switch {
	case storeErr != nil:
		return fmt.Errorf("rows could not be stored, the run stops here: %w", storeErr)
	case r.refusal != nil:
		return r.refusal
	case runErr != nil:
		return runErr
	}
	if r.rc.Stopped() {
		r.interrupt()
	}
	return nil
}

// withdraw makes earlier results of the stage invalid if its cases are measured again.
func (r *running) withdraw() error {
	if r.rc.Replace != nil {
		if err := r.rc.Replace(); err != nil {
			return err
		}
	}
	if r.journal == nil {
		return nil
	}
	if err := r.job.withdraw(r.journal, r.rc.Options); err != nil {
		return fmt.Errorf("what is to be measured again cannot be withdrawn: %w", err)
	}
	return nil
}

// order returns the open tasks in the order in which they are tried.
func (r *running) order() ([]int, error) {
	order, err := r.job.together(r.job.todo(), r.Weights, "weights")
	if err != nil {
		return nil, err
	}

	// Try cases that never failed first.
	slices.SortStableFunc(order, func(a, b int) int { return rank(r.job.tried[a]) - rank(r.job.tried[b]) })
	if columns := r.kind().RestartColumns; columns != nil {
		return r.job.together(order, columns(r.runtime, r.job.cases.Columns()), "the runtime")
	}
	return order, nil
}

// rank sorts false before true.
func rank(so bool) int {
	if so {
		return 1
	}
	return 0
}

// remember stores the environment for later plans, once per run.
func (r *running) remember() {
	if r.remembered {
		return
	}
	r.remembered = true
	if err := r.pools.Remember(r.rc.Store, r.runtime, *r.env); err != nil {
		r.message("warn", "%v", err)
	}
}

// Workers are the workers of a collect after their start.
type Workers struct {
	Pool        *worker.Pool
	Settings    worker.Settings
	Environment runtimes.Environment // of the first one

	code *worker.Code
}

// startWorkers starts workers for n cases of an op. It ends with context.Canceled if the user stops the run. set has
// the files that the op reads and the log. If code is the name of the op, the code that the workers report is awaited.
// It returns an outcome if the runtime is not available here.
func (c *Config) startWorkers(ctx context.Context, rc *stage.RunContext, set worker.Settings, n int,
	op, code string) (*Workers, *stage.Outcome, error) {
	pool, err := c.pools.Get(ctx, c.runtime, runtimes.PlaceOf(rc))
	switch {
	case runtimes.Fault(err) || errors.Is(err, context.Canceled) && rc.Stopped():
		return nil, nil, err
	case err != nil:
		return nil, Needs(c.runtime, err.Error()), nil
	}

	w := &Workers{Pool: pool, Settings: set}
	w.Settings.Wake = rc.Stop
	if err := c.configure(&w.Settings, op); err != nil {
		return nil, nil, err
	}

	up, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-rc.Stop:
			cancel()
		case <-up.Done():
		}
	}()

	hello, reported, err := pool.Up(up, w.Settings, n, code)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		needs, err := c.refused(err)
		return nil, needs, err
	}
	w.Environment, w.code = runtimes.EnvironmentOf(c.runtime, hello), reported
	return w, nil, nil
}

// refused returns the outcome "needs" if a worker reported that it cannot run the stage here. It returns all other
// errors unchanged.
func (c *Config) refused(err error) (*stage.Outcome, error) {
	if sf, ok := errors.AsType[*worker.StartFailure](err); ok && sf.Reported &&
		sf.Failure.Class == worker.ClassUnsupportedConfig {
		return Needs(c.runtime, sf.Failure.Message), nil
	}
	return nil, err
}

// Needs returns the outcome of a stage whose runtime is not available here.
func Needs(rt *stage.Runtime, why string) *stage.Outcome {
	return &stage.Outcome{Status: stage.StatusNeeds, Message: "needs " + rt.Address + ": " + firstLine(why), NoReuse: true}
}

// configure sets the measure settings, the blocks and the op's binding. A Python worker gets the op at the start, so
// that an error that affects all cases is reported before the first case.
func (c *Config) configure(set *worker.Settings, op string) (err error) {
	set.Seed = c.settings.Seed
	if len(c.kind().Measure) > 0 {
		if set.Measure, err = json.Marshal(c.settings); err != nil {
			return fmt.Errorf("measure settings: %w", err)
		}
	}

	if set.Blocks, err = c.workerBlocks(); err != nil {
		return err
	}

	bind := c.workerBind()
	if bind == nil && c.kind().NamesOps {
		bind = map[string]any{}
	}
	if bind != nil {
		if set.Ops, err = json.Marshal(map[string]any{op: bind}); err != nil {
			return fmt.Errorf("bind: %w", err)
		}
	}
	return nil
}
