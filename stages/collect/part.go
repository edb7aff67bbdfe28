package collect

import (
	"context"
	"encoding/json"
	"errors"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/base/proc"
	"aicplan/stages/executors"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// Columns that only rows of executor tasks have.
const (
	NodeColumn   = "node"   // node name from the scheduler
	DriverColumn = "driver" // driver version, if the workers report one
)

// Part is the share of a collect that one executor task measures.
type Part struct {
	Task *executors.Task
	// Places are the indexes of the cases in the grid.
	Places []int

	others int // units of other tasks
	driver string
}

// OrderKey returns a digest of what the tasks measure: the evaluated block without the attributes that
// do not affect the tasks, the code of the op, and the cases. cases is nil if they are not known yet.
func (c *Config) OrderKey(cases *grid.Cases) (string, error) {
	values := stage.Without(c.Values(), map[string]string{"executor": "", "reference": ""})
	key := map[string]any{"block": values, "cases": cases.Digest()}
	if code := c.code.Load(); code != nil && len(code.Files) > 0 {
		key["source"] = code.String()
	}
	digest, _, err := checkpoint.Key(key)
	return digest, err
}

// CasesOf returns the cases of the stage's plan, or nil if it has none.
func CasesOf(p *stage.Plan) *grid.Cases {
	if m := MeasurementOf(p); m != nil {
		return m.Cases
	}
	return grids.CasesOf(p)
}

// RunPart measures the cases of a part and returns how the task ended. The results are in the journal; the coordinator
// builds the table.
func (c *Config) RunPart(ctx context.Context, rc *stage.RunContext, part *Part) (executors.State, string) {
	// The coordinator has already withdrawn the cases that are measured again.
	rc.Options.Again, rc.Options.Retry = false, ""
	r, err := c.start(ctx, rc, part)
	if err != nil {
		return executors.Failed, err.Error()
	}

	if r.env == nil || len(r.job.todo()) > 0 {
		out, err := r.collect(ctx)
		if err != nil && !(r.rc.Stopped() && errors.Is(err, context.Canceled)) {
			part.count(r)
			return executors.Failed, err.Error()
		}
		if out != nil {
			return executors.Needs, out.Message
		}
	}

	left := part.count(r)
	switch {
	case r.stopText != "":
		return executors.Stopped, r.stopText
	case r.rc.Stopped() && r.now == 0 && left > 0:
		return executors.Drained, "its time was over before the first case had ended; time and drain set how long it has"
	case r.rc.Stopped() && left > 0:
		return executors.Drained, ""
	}

	return executors.Done, ""
}

// restrict skips the tasks that are not at places and returns the number of their units.
func (j *job) restrict(places []int) (others int) {
	mine := make([]bool, len(j.tasks))
	for _, p := range places {
		if p >= 0 && p < len(mine) {
			mine[p] = true
		}
	}

	j.shared = true
	other := &skip{notSelected, "another task has it"}
	for i := range j.tasks {
		t := &j.tasks[i]
		if mine[i] {
			continue
		}
		t.selected = false
		for k := t.first; k < t.first+t.n; k++ {
			j.units[k].skip(other)
			others++
		}
	}

	return others
}

// count reports the task's progress to the coordinator. It returns the number of units without a result.
func (p *Part) count(r *running) (left int) {
	n := r.job.tally()
	left = n.Planned - n.Measured - n.Failed - n.excluded - n.barred
	p.Task.Update(false, func(s *executors.Status) {
		s.Measured, s.Failed, s.Skipped, s.Left = r.now, n.Failed, n.Skipped-p.others, left
	})
	return left
}

// arrived reports the task's environment to the coordinator.
func (p *Part) arrived(env *runtimes.Environment) {
	p.driver = env.Env["driver"]
	raw, _ := json.Marshal(env) // an environment is plain text
	p.Task.Update(true, func(s *executors.Status) { s.State, s.Environment = executors.Running, raw })
}

// mark adds the node and driver columns to the rows of a case.
func (p *Part) mark(o *worker.Outcome) {
	for _, row := range o.Rows {
		if _, own := row[NodeColumn]; !own {
			row[NodeColumn] = proc.NodeName()
		}
		if _, own := row[DriverColumn]; !own && p.driver != "" {
			row[DriverColumn] = p.driver
		}
	}
}

// endedByScheduler reports whether a worker died because the scheduler is ending the job. The scheduler signals
// every process of the job, so the worker may end before this process does.
func (p *Part) endedByScheduler(o *worker.Outcome) bool {
	return p != nil && o.Failure != nil && o.Cause == worker.CauseDied && o.Failure.Exception == "SIGTERM"
}
