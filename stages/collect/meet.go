package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// refused recognises a worker that says that this is not the place for the stage
// from every other error.
func (r *running) refused(err error) (*stage.Outcome, error) {
	if sf, ok := errors.AsType[*worker.StartFailure](err); ok && sf.Said && sf.Failure.Class == worker.ClassUnsupportedConfig {
		return r.needs(sf.Failure.Message), nil
	}
	return nil, err
}

// explained adds what the user can do.
func explained(err error) error {
	if m, ok := errors.AsType[*runtimes.Missing](err); ok && m.Fix != "" {
		return fmt.Errorf("%w; to do: %s", err, m.Fix)
	}
	return err
}

// up starts workers; nil without an error means that the user stopped the run
// meanwhile.
func (r *running) up(ctx context.Context, set worker.Settings) (*worker.Hello, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-r.rc.Stop:
			cancel()
		case <-done:
		}
	}()
	hello, err := r.pool.Up(ctx, set, len(r.job.todo()))
	if err != nil && r.stopped() && errors.Is(err, context.Canceled) {
		return nil, nil
	}
	return hello, err
}

func (r *running) workerLog(slot, level, text string) {
	if level == "trace" {
		return
	}
	if level == stage.MessageStatus || level == stage.MessageShow {
		r.rc.Events.Message(r.rc.Address, level, text)
		return
	}
	r.rc.Events.Emit(r.rc.Address, "worker", map[string]any{"worker": slot, "level": level, "text": text})
	if level != "warn" && level != "error" {
		return
	}
	// Every fresh process of every slot says what the first one said.
	line := firstLine(text)
	key := level + digits.ReplaceAllString(line, "#")
	if !r.heard[key] {
		r.heard[key] = true
		r.rc.Events.Message(r.rc.Address, level, slot+": "+line)
	}
}

// meet takes the environment of the first worker. Where it is not the expected
// one, the journal of the right one decides what is open.
func (r *running) meet(h *worker.Hello) error {
	env := runtimes.EnvironmentOf(r.runtime, h)
	if err := r.reported(&env); err != nil {
		return err
	}
	env.SeenAt, env.Workers = time.Now().UTC().Format(time.RFC3339), r.pool.Slots()
	spec := r.planned.cases.Spec()
	r.readSource(spec.Op, r.rc.PlanDir, &env)
	same, err := r.asAssumed(&env, "nothing of it was measured")
	switch {
	case err != nil:
		return err
	case same:
		r.env = &env
		return nil
	}
	return r.settleIn(&env)
}

// asAssumed compares what the workers say of themselves with what was looked up
// for them. Where it is something else, that is what counts from here on, for
// the stages that follow and for later plans. Done says in an error what became
// of the stage's cases.
func (r *running) asAssumed(env *runtimes.Environment, done string) (bool, error) {
	same := false
	if r.env != nil {
		env.Sources = r.env.Sources
		var err error
		if same, err = r.sameContext(env); err != nil {
			return false, err
		}
	}
	if same {
		env.Asked = r.env.Asked
	} else {
		r.pools.Met(r.runtime, env)
	}
	if err := r.besides(env, done); err != nil {
		return false, err
	}
	if r.env != nil && !same {
		r.rc.Events.Message(r.rc.Address, "warn", "the environment is not the one that the plan assumed: "+r.differences(r.env, env))
	}
	return same, nil
}

// besides refuses to put rows of an environment beside those of other stages on
// the same runtime that this run has taken from another one. What was done says
// what became of the stage's own. Stages that the plan sends to other machines have
// what is there: that is so in every run.
func (r *running) besides(env *runtimes.Environment, done string) error {
	if r.rc.Standing == nil || r.part != nil {
		return nil // who hands out the parts compares them
	}
	var others []string
	diff := ""
	for address, s := range r.rc.Standing() {
		c, ok := s.(*Config)
		if !ok || c == r.Config || c.runtime.Address != r.runtime.Address || !sameMachines(c, r.Config) {
			continue
		}
		taken := c.assumed.Load()
		if taken == nil {
			continue
		}
		if d := c.apart(c.but(hostField), taken, env); d != "" {
			others, diff = append(others, address), d
		}
	}
	if len(others) == 0 {
		return nil
	}
	if err := runtimes.Remember(r.rc.Store, r.runtime.Address, *env); err != nil {
		return err
	}
	slices.Sort(others)
	if len(others) > 3 {
		others = append(others[:3], fmt.Sprintf("%d more", len(others)-3))
	}
	advice := "apply again: the plan then knows what the workers report"
	if r.Elsewhere() {
		advice += "; where the executor has nodes of several kinds, name one kind with constraint"
	}
	return fmt.Errorf("workers of %s report another environment than that of rows which this run has taken: %s, against %s; %s; %s",
		r.runtime.Address, diff, strings.Join(others, ", "), done, advice)
}

// sameMachines says whether the plan has two stages measure in one place: here, or
// by one executor.
func sameMachines(a, b *Config) bool {
	return !a.Elsewhere() && !b.Elsewhere() || a.Elsewhere() && b.Elsewhere() && a.place.Address == b.place.Address
}

// sameContext says whether rows of an environment belong into the journal of the
// expected one.
func (r *running) sameContext(env *runtimes.Environment) (bool, error) {
	spec := r.planned.cases.Spec()
	before, err := r.Context(spec, r.env).Digest()
	if err != nil {
		return false, err
	}
	now, err := r.Context(spec, env).Digest()
	return before == now, err
}

// reported makes sure that the worker tells every field that rows are kept apart
// by: a misspelt one would keep nothing apart.
func (r *running) reported(env *runtimes.Environment) error {
	for _, name := range r.Environment {
		_, told := env.Env[name]
		if !told && !slices.Contains([]string{"framework", "version", "device"}, name) {
			fields := append([]string{"framework", "version", "device"}, slices.Sorted(maps.Keys(env.Env))...)
			return fmt.Errorf("environment lists %q, which workers of %s do not report; they report %s", name, r.runtime.Address, strings.Join(fields, ", "))
		}
	}
	return nil
}

// hostField is where rows were measured, and nothing of what measured them: stages
// of one run may have different nodes, and with an executor they often do.
const hostField = "hostname"

// but are the fields that keep rows apart, without one.
func (c *Config) but(field string) []string {
	return slices.DeleteFunc(slices.Clone(c.Environment), func(name string) bool { return name == field })
}

// differences names the fields that differ of those that keep rows apart.
func (c *Config) differences(a, b *runtimes.Environment) string {
	return c.apart(c.Environment, a, b)
}

func (c *Config) apart(fields []string, a, b *runtimes.Environment) string {
	var out []string
	for _, name := range fields {
		if x, y := a.Field(name), b.Field(name); x != y {
			out = append(out, fmt.Sprintf("%s %q -> %q", name, x, y))
		}
	}
	if c.kind().Interpreter != nil && !slices.Contains(c.Environment, "python") {
		if x, y := minorVersion(a.Env["python"]), minorVersion(b.Env["python"]); x != y && x != "" && y != "" {
			out = append(out, fmt.Sprintf("python %q -> %q", x, y))
		}
	}
	return strings.Join(out, ", ")
}
