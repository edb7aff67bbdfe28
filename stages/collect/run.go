package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
	"aicplan/stages/telemetry"
)

// running is one run of the stage.
type running struct {
	*Config
	rc       *stage.RunContext
	planned  *planned
	job      *job
	env      *runtimes.Environment
	journal  *checkpoint.Journal
	pool     *worker.Pool
	policy   *policy
	watching *telemetry.Watch
	part     *Part                  // of a task; nil if this process has all cases
	samples  map[string]*slotSample // by worker
	refusal  error                  // why results are not accepted any more
	more     *worker.Code           // set with errMore in foreign
	reused   int                    // units
	now      int                    // units measured by this run

	remembered bool
	byClass    map[string]int // see classes
	hellos     map[*worker.Hello]*runtimes.Environment
	shown      map[string]bool // lines of workers that were shown
}

// Run implements stage.Stage.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	c.pinned = true
	r := &running{Config: c, rc: rc, shown: map[string]bool{}}
	if rc.Plan != nil {
		r.planned, _ = rc.Plan.Private.(*planned)
	}

	if r.planned == nil {
		return nil, errors.New("the cases are not known; the plan must be made again")
	}

	// Pools keep references to the settings of their workers, and with them to r.
	defer func() { r.job, r.policy = nil, nil }()
	var err error
	if r.job, err = newJob(r.planned.cases, c.schema(r.planned.info.Perf), c.limits.groupBy, rc.Options); err != nil {
		return nil, err
	}

	r.job.demands = r.demands()
	if err := r.job.excludeUnsupported(c.unsupported); err != nil {
		return nil, err
	}

	if err := r.reuseExpected(ctx); err != nil {
		return nil, err
	}

	if r.env == nil || len(r.job.todo()) > 0 {
		work := r.collect
		if c.Elsewhere() {
			work = r.distribute
		}

		out, err := work(ctx)
		if err != nil {
			return r.storedCounts(), err
		}

		if out != nil {
			return out, nil
		}
	}

	return r.finish()
}

// demands returns the columns that workers must return. Constants of the grid apply to every row and are
// left out. Rows of open tables, such as those of servers, have no demands.
func (r *running) demands() []string {
	if t, ok := r.tables.Lookup(r.perfTable(r.planned.info.Perf)); ok && t.Open {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.rc.Plan.Demands), func(name string) bool {
		return slices.ContainsFunc(r.planned.cases.Spec().Constants, func(k grid.Constant) bool { return k.Name == name })
	})
}

// storedCounts returns the counts of stored results when the run fails, for its last line. The next run reuses
// them. It returns nil if this run added none.
func (r *running) storedCounts() *stage.Outcome {
	if r.now == 0 {
		return nil
	}
	return &stage.Outcome{Counts: stage.Counts{Cases: r.job.asked(), Planned: len(r.job.units), Measured: r.now,
		Reused: r.reused}}
}

// reuseExpected closes the units that the journal of the expected environment contains.
func (r *running) reuseExpected(ctx context.Context) error {
	env, _ := r.expect(ctx, r.rc.Store, r.planned.cases.Spec().Op, r.rc.PlanDir)
	if env == nil {
		return nil
	}
	return r.useEnvironment(env)
}

// useEnvironment switches to an environment and closes the units that its journal contains.
func (r *running) useEnvironment(env *runtimes.Environment) error {
	journal, _, err := r.Config.journal(r.rc.Store, r.planned.cases.Spec(), env)
	if err != nil {
		return err
	}

	r.env, r.journal = env, journal
	r.measuredIn.Store(env)
	r.job.forget()
	if err := r.job.reuse(journal, r.rc.Options, r.limits.tripAfter); err != nil {
		return err
	}

	r.reused = r.job.tally().Measured
	return nil
}

// collect measures the open cases. If the outcome is not nil, the stage ends with it.
func (r *running) collect(ctx context.Context) (*stage.Outcome, error) {
	if r.stopped() {
		return nil, r.giveUp()
	}
	if m := r.pools.Lacking(ctx, r.runtime); m != nil {
		return r.needs(m.What + "; to do: " + m.Fix), nil
	}

	if h := r.hosted(); h != nil {
		if err := runtimes.CheckoutHas(r.runtime, *h); err != nil {
			return nil, explained(err)
		}
	}

	var err error
	switch r.pool, err = r.pools.Get(ctx, r.runtime, runtimes.PlaceOf(r.rc)); {
	case errors.Is(err, context.Canceled) && r.stopped():
		return nil, r.giveUp()
	case runtimes.Fault(err):
		return nil, err
	case err != nil:
		return r.needs(err.Error()), nil
	}

	set, err := r.workerSettings(r.opName(r.planned.cases.Spec().Op))
	if err != nil {
		return nil, err
	}

	set.Reads = r.readFiles()
	set.Wake, set.Log = r.rc.Stop, r.workerLog
	hello, code, err := r.up(ctx, set)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return r.refused(err)
	case hello == nil:
		return nil, r.giveUp()
	}

	if err := r.acceptEnvironment(hello, code); err != nil {
		return nil, err
	}

	for {
		out, err := r.measure(ctx, set)
		if err == nil || !errors.Is(err, errMore) {
			return out, err
		}

		// What was measured stays in the journal of the code that was known then.
		env, err := r.imported(r.env, r.code.Load(), r.more)
		if err != nil {
			return nil, err
		}

		r.pools.Met(r.runtime, env)
		r.refusal, r.more, r.remembered = nil, nil, false
		if err := r.useEnvironment(env); err != nil {
			return nil, err
		}
	}
}

// measure measures the open cases in the environment that the workers have reported. If the outcome is not nil,
// the stage ends with it. The error is errMore if other code was imported meanwhile.
func (r *running) measure(ctx context.Context, set worker.Settings) (*stage.Outcome, error) {
	if r.part != nil {
		r.part.arrived(r.env)
		if len(r.job.todo()) == 0 {
			return nil, nil
		}
	}

	if r.rc.Replace != nil {
		if err := r.rc.Replace(); err != nil {
			return nil, err
		}
	}

	if err := r.job.withdraw(r.journal, r.rc.Options); err != nil {
		return nil, fmt.Errorf("what is to be measured again cannot be withdrawn: %w", err)
	}
	if err := r.dispatch(ctx, set); err != nil {
		return r.refused(err)
	}

	return nil, nil
}

// dispatch hands the open cases to the pool and waits until all results are on disk.
func (r *running) dispatch(ctx context.Context, set worker.Settings) error {
	op := r.planned.cases.Spec().Op
	order, err := r.job.together(r.job.todo(), r.Weights, "weights")
	if err != nil {
		return err
	}

	if len(r.job.tried) > 0 { // try cases that never failed first
		slices.SortStableFunc(order, func(a, b int) int { return rank(r.job.tried[a]) - rank(r.job.tried[b]) })
	}
	if columns := r.kind().RestartColumns(r.runtime, r.planned.cases.Columns()); len(columns) > 0 {
		if order, err = r.job.together(order, columns, "the runtime"); err != nil {
			return err
		}
	}

	earlier, err := history(r.journal)
	if err != nil {
		return err
	}

	k := newKeeper(r.job, r.journal, r.rc.Events, r.rc.Address)
	r.policy = newPolicy(r.job, order, r.limits, r.rules, r.opName(op), earlier.all, r.rc.Options.Seed, k, r.rc.Stop)
	r.policy.halt = func() bool { return k.broken.Load() || r.refusal != nil }
	r.policy.attach = r.attach
	if r.part != nil {
		r.policy.shared = &sharedGroups{path: r.part.Task.Order.GroupsFile(), now: time.Now}
	}

	if r.openLabel() {
		r.policy.label = func(h *worker.Hello) *rows.Label {
			e := r.environmentOf(h)
			return &rows.Label{Framework: e.Framework, Version: e.Version, Device: e.Device}
		}
	}

	stopWatching, err := r.watch(ctx)
	if err != nil {
		return err
	}

	runErr := r.pool.Run(ctx, set, &checked{policy: r.policy, run: r, keeper: k})
	stopWatching()
	r.pools.Release(r.runtime)
	var storeErr error
	r.now, storeErr = k.wait()
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

	if r.stopped() {
		r.policy.interrupt(interruptedReason)
	}

	return nil
}

// remember stores the environment for later plans, once per run.
func (r *running) remember() {
	if r.remembered {
		return
	}

	r.remembered = true
	if err := r.pools.Remember(r.rc.Store, r.runtime, *r.env); err != nil {
		r.rc.Events.Message(r.rc.Address, "warn", err.Error())
	}
}

// openLabel reports whether the journal's context does not fix framework, version or device.
func (r *running) openLabel() bool {
	for _, name := range []string{"framework", "version", "device"} {
		if !slices.Contains(r.Environment, name) {
			return true
		}
	}
	return false
}

// environmentOf returns the environment of a worker. Every case of the worker asks for it.
func (r *running) environmentOf(h *worker.Hello) *runtimes.Environment {
	env := r.hellos[h]
	if env == nil {
		of := runtimes.EnvironmentOf(r.runtime, h)
		env = &of
		if r.hellos == nil {
			r.hellos = map[*worker.Hello]*runtimes.Environment{}
		}
		r.hellos[h] = env
	}
	return env
}

// checked wraps policy and verifies that every worker has the environment of the first one.
type checked struct {
	*policy
	run    *running
	keeper *keeper
}

// Done implements worker.CaseSource.
func (c *checked) Done(o worker.Outcome) {
	r := c.run
	if o.Hello != nil && r.refusal == nil {
		env := r.environmentOf(o.Hello)
		if diff := r.differences(r.env, env); diff != "" {
			advice := "give the runtime devices of one kind, or take the field out of environment"
			if env.Device == r.env.Device && env.Version != r.env.Version {
				advice = "what it runs was replaced meanwhile: apply again"
			}
			r.refusal = fmt.Errorf("worker %s does not measure where the first one did: %s; %s", o.Slot, diff, advice)
		}
	}
	if r.refusal == nil {
		r.refusal = r.unlike(&o)
	}

	if r.refusal != nil || r.part.endedByScheduler(&o) {
		c.policy.out--
		return // the case stays open
	}

	if r.watching != nil {
		r.observe(&o)
	}

	r.sampled(o)
	if r.part != nil {
		r.part.mark(&o)
	}

	c.policy.Done(o)
	if c.keeper.any() && r.part == nil {
		// Remember now, not at the end, so that the environment survives a killed run.
		r.remember()
	}
}
