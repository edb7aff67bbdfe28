package collect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/sink/base/textutil"
	"aicplan/stages/runtimes"
)

// expect returns the environment in which the cases of a stage would be measured now, with the code that workers would
// import, or nil if nothing is known. assumed describes an environment that was seen in an earlier run, or that its
// tasks have reported. cases is nil if they are not known yet.
func (c *Config) expect(ctx context.Context, store *checkpoint.Store, address, planDir string,
	cases *grid.Cases) (env *runtimes.Environment, assumed string) {
	op := ""
	if cases != nil {
		op = cases.Spec.Op
	}

	env, assumed = c.pools.Expect(ctx, store, c.runtime)
	if env == nil {
		c.withCode(op, planDir, &runtimes.Environment{})
		if c.Elsewhere() {
			return c.submitted(store, address, cases)
		}
		return nil, ""
	}

	if c.Elsewhere() {
		// Tasks inherit the variables of their node.
		if seen, err := runtimes.Known(store, c.runtime.Address); err == nil && seen != nil {
			env.Variables = seen.Variables
		}
	}
	return c.withCode(op, planDir, env), assumed
}

// withCode returns a copy of an environment with the code that workers would import now. It returns env if workers do
// not report code, or if the binding states a version.
func (c *Config) withCode(op, planDir string, env *runtimes.Environment) *runtimes.Environment {
	if c.stated() || c.kind().Entry == nil {
		return env
	}

	entry, _ := c.kind().Entry(c.runtime, planDir, c.opName(op), c.workerBind(), env.Version)
	code := runtimes.CodeNow(entry, func(digest string) *runtimes.Code {
		if known := env.Code[c.codeKey(op)+digest]; known != nil {
			return known
		}
		return env.Code[c.codeKey(op)]
	}, env.Env["python"])
	c.code.Store(code)
	return c.setCode(op, env, code)
}

// codeKey returns the key of the op's code in environments. Followed by the digest of an entry, it is the key of the
// code for that state of the op's files.
func (c *Config) codeKey(op string) string { return runtimes.CodeKey(c.runtime, c.opName(op), c.bind) }

// setCode returns a copy of an environment with other code of the op.
func (c *Config) setCode(op string, env *runtimes.Environment, code *runtimes.Code) *runtimes.Environment {
	e := *env
	e.Code = map[string]*runtimes.Code{}
	maps.Copy(e.Code, env.Code)
	e.Code[c.codeKey(op)], e.Code[c.codeKey(op)+code.Entry] = code, code
	return &e
}

// codeIn returns the code of the op in an environment. It returns nil if the code is unknown, if workers do not report
// it, or if the binding states a version.
func (c *Config) codeIn(op string, env *runtimes.Environment) *runtimes.Code {
	if c.stated() {
		return nil
	}
	return env.Code[c.codeKey(op)]
}

// packagesIn returns the distributions that the code imports, without the runtime's package, whose version the
// environment has.
func (c *Config) packagesIn(code *runtimes.Code) map[string]string {
	if code == nil {
		return nil
	}
	out := maps.Clone(code.Packages)
	delete(out, runtimes.Normal(c.runtime.Package))
	return out
}

// acceptEnvironment takes the environment of the first worker. If it differs from the expected one, the open cases are
// determined again from its journal.
func (r *running) acceptEnvironment(w *Workers) error {
	reported := w.Environment
	reported.SeenAt, reported.Workers = time.Now().UTC().Format(time.RFC3339), w.Pool.AtOnce()
	if r.env != nil {
		reported.Code = r.env.Code
	} else if seen, err := runtimes.Known(r.rc.Store, r.runtime.Address); err == nil && seen != nil {
		reported.Code = seen.Code
	}

	op := r.job.cases.Spec.Op
	now := r.withCode(op, r.rc.PlanDir, &reported)
	env, err := r.imported(now, r.codeIn(op, now), w.code)
	if err != nil {
		return err
	}
	return r.replaceAssumed(env, "nothing of it was measured")
}

// imported takes the code that a worker has reported into the environment, in addition to known, the code that workers
// have reported before. The error explains that a file was replaced in the meantime.
func (r *running) imported(env *runtimes.Environment, known *runtimes.Code,
	report *worker.Code) (*runtimes.Environment, error) {
	if report == nil || r.kind().Entry == nil || r.stated() {
		return env, nil
	}

	op := r.job.cases.Spec.Op
	entry, _ := r.kind().Entry(r.runtime, r.rc.PlanDir, r.planned.op(), r.workerBind(), env.Version)
	code, err := runtimes.CodeReported(entry, report)
	if err != nil {
		return nil, r.replaced(err)
	}

	// Some cases import modules that others do not.
	if known != nil && known.Entry == code.Entry {
		code.Add(known)
	}
	r.code.Store(code)
	return r.setCode(op, env, code), nil
}

// reusesOtherCode reports whether the code of the rows differs from the code that was recorded last.
func (r *running) reusesOtherCode() bool {
	op := r.job.cases.Spec.Op
	seen, err := runtimes.Known(r.rc.Store, r.runtime.Address)
	code := r.codeIn(op, r.env)
	if err != nil || seen == nil || code == nil {
		return false
	}
	before := r.codeIn(op, seen)
	return before == nil || before.String() != code.String()
}

// replaceAssumed uses the environment that the workers report. If it has another journal than the one that the plan
// assumed, later stages and plans use the reported one, and the open cases are determined again. done describes the
// state of the stage's cases in error messages.
func (r *running) replaceAssumed(env *runtimes.Environment, done string) error {
	same, err := r.sameContext(env)
	if err != nil {
		return err
	}
	if !same {
		r.pools.Met(r.runtime, env)
	}
	if err := r.checkReused(env, done); err != nil {
		return err
	}

	if same {
		r.env = env
		return nil
	}
	if r.env != nil {
		// Workers report the code of an op only when it was loaded, so other code is no surprise.
		if diff := r.differences(r.env, env); diff != "" {
			r.message("warn", "the environment is not the one that the plan assumed: %s", diff)
		}
	}
	return r.useEnvironment(env)
}

// sameContext reports whether rows of an environment belong to the journal of the current one.
func (r *running) sameContext(env *runtimes.Environment) (bool, error) {
	if r.journal == nil {
		return false, nil
	}
	digest, err := r.Context(r.job.cases.Spec, env).Digest()
	return digest == r.journal.Digest, err
}

// checkReused returns an error if this run has reused rows of other stages on the same runtime that were measured in a
// different environment. Stages that run on other machines are not compared, because their environments always differ.
func (r *running) checkReused(env *runtimes.Environment, done string) error {
	if r.rc.Standing == nil || r.part != nil {
		return nil // the coordinator compares the tasks
	}

	var others []string
	diff := ""
	for address, s := range r.rc.Standing() {
		c, ok := s.(*Config)
		if !ok || c == r.Config || c.runtime.Address != r.runtime.Address || !sameMachines(c, r.Config) {
			continue
		}
		if taken := c.assumed.Load(); taken != nil {
			if d := c.differences(taken, env); d != "" {
				others, diff = append(others, address), d
			}
		}
	}

	if len(others) == 0 {
		return nil
	}
	if err := r.pools.Remember(r.rc.Store, r.runtime, *env); err != nil {
		return err
	}

	slices.Sort(others)
	advice := "apply again: the plan then knows what the workers report"
	if r.Elsewhere() {
		advice += "; if the executor has nodes of several kinds, name one kind with constraint"
	}
	return fmt.Errorf(
		"workers of %s report another environment than that of rows which this run has taken: %s, against %s; %s; %s",
		r.runtime.Address,
		diff,
		textutil.First(others, 3, ", "),
		done,
		advice,
	)
}

// sameMachines reports whether two stages measure in the same place: on this machine, or with the same executor.
func sameMachines(a, b *Config) bool {
	return a.Elsewhere() == b.Elsewhere() && (!a.Elsewhere() || a.place.Address == b.place.Address)
}

// differences lists the fields of a and b that distinguish measurements and differ.
func (c *Config) differences(a, b *runtimes.Environment) string {
	var out []string
	differ := func(name, x, y string) {
		if x != y {
			out = append(out, fmt.Sprintf("%s %q -> %q", name, x, y))
		}
	}

	differ("framework", a.Framework, b.Framework)
	differ("version", a.Version, b.Version)
	differ("device", a.Device, b.Device)
	if x, y := minorVersion(a.Env["python"]), minorVersion(b.Env["python"]); c.kind().Interpreted && x != "" && y != "" {
		differ("python", x, y)
	}
	return strings.Join(out, ", ")
}

// unlike returns why the rows of an outcome cannot be stored beside the others, or nil: the worker has another
// environment than the first one, it has imported other code than the plan was made with, or a file that rows depend on
// has changed. Code that no worker had reported before is added to the environment.
func (r *running) unlike(o *worker.Outcome, k *keeper) error {
	if o.Hello != nil && !r.accepted[o.Hello] {
		env := runtimes.EnvironmentOf(r.runtime, o.Hello)
		if diff := r.differences(r.env, &env); diff != "" {
			advice := "give the runtime devices of one kind"
			if env.Device == r.env.Device && env.Version != r.env.Version {
				advice = "what it runs was replaced meanwhile: apply again"
			}
			return fmt.Errorf("worker %s has another environment than the first one: %s; %s", o.Slot, diff, advice)
		}
		r.accepted[o.Hello] = true
	}

	if code := r.code.Load(); code != nil && !r.stated() {
		more := false
		if o.Code != nil {
			var err error
			if more, err = code.Covers(o.Code); err != nil {
				return r.replaced(err)
			}
		}
		if err := code.Changed(); err != nil {
			return r.replaced(err)
		}
		if more {
			if err := r.extend(o.Code, k); err != nil {
				return err
			}
		}
	}
	return r.filesChanged()
}

// extend adds code that a worker has imported for the first time to the environment. Rows of this run until then count
// with it, because their workers had imported none of it. Those of earlier runs are measured again: the code may not
// have been there yet.
func (r *running) extend(report *worker.Code, k *keeper) error {
	env, err := r.imported(r.env, r.code.Load(), report)
	if err != nil {
		return err
	}
	if same, err := r.sameContext(env); err != nil || same {
		r.env = env
		return err
	}

	k.pending.Wait()
	if k.broken.Load() {
		return nil // the run ends with the error
	}
	if err := r.moveTo(env, ""); err != nil {
		return err
	}
	if r.part != nil {
		r.part.arrived(env)
	}
	return r.withdraw()
}

// moveTo switches to an environment that has more code than the current one. Its journal gets the rows that this
// process, or stores whose label begins with label, have added to the current journal. Units with other rows are open
// again.
func (r *running) moveTo(env *runtimes.Environment, label string) error {
	journal, _, err := r.Config.journal(r.rc.Store, r.job.cases.Spec, env)
	if err == nil {
		err = journal.Inherit(r.journal, label)
	}
	if err != nil {
		return fmt.Errorf("rows cannot be kept with the code that was imported after them: %w", err)
	}

	r.env, r.journal, r.remembered = env, journal, false
	r.measuredIn.Store(env)
	r.pools.Met(r.runtime, env)
	for i, u := range r.job.all() {
		if _, has := journal.Has(r.job.id(i)); !has && (u.state == measured || u.state == failed) {
			if u.state == measured {
				r.reused--
			}
			u.settle(open)
			r.reopened = true
		}
	}
	return nil
}

// filesChanged returns an error if a file of reads_files or a file that the runtime's kind reads differs from the one
// that the plan was made with.
func (r *running) filesChanged() error {
	for _, f := range []struct {
		paths []string
		id    string
	}{{r.ReadsFiles, r.readsFilesID}, {r.kindFiles, r.kindFilesID}} {
		if len(f.paths) == 0 || f.id == "" {
			continue
		}
		now, err := contentOf(context.Background(), f.paths)
		if err != nil {
			return err
		}
		if now != f.id {
			return r.replaced(
				&runtimes.ChangedError{
					Path: fmt.Sprintf("%s (one of the files that the cases read)", textutil.First(f.paths, 3, ", ")),
				},
			)
		}
	}
	return nil
}

// replaced explains an error about a file that changed during the run.
func (r *running) replaced(err error) error {
	return fmt.Errorf(
		"%w; the run stops here, so that no row of other code counts. Rows until then are kept; apply again to measure "+
			"with what is there now",
		err,
	)
}
