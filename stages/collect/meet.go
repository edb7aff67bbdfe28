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
	if r.env != nil {
		env.Sources = r.env.Sources
		same, err := r.sameContext(&env)
		if err != nil {
			return err
		}
		if same {
			r.env = &env
			return nil
		}
		r.rc.Events.Message(r.rc.Address, "warn", "the environment is not the one that the plan assumed: "+r.differences(r.env, &env))
	}
	return r.settleIn(&env)
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

// differences names the fields of the policy that differ.
func (r *running) differences(a, b *runtimes.Environment) string {
	var out []string
	for _, name := range r.Environment {
		if x, y := a.Field(name), b.Field(name); x != y {
			out = append(out, fmt.Sprintf("%s %q -> %q", name, x, y))
		}
	}
	return strings.Join(out, ", ")
}
