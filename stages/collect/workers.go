package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

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
