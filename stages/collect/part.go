package collect

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
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

	driver string
}

// OrderKey returns a digest of what the tasks measure: the evaluated block without the attributes that
// do not affect the tasks, the code of the op, and the cases. cases is nil if they are not known yet.
func (c *Config) OrderKey(cases *grid.Cases) (string, error) {
	values := stage.Without(c.Values(), map[string]string{"executor": "", "description": "", "fail_over": "",
		"reference": ""})
	key := map[string]any{"block": values, "cases": cases.Digest()}
	if code := c.code.Load(); code != nil && len(code.Files) > 0 {
		key["source"] = code.String()
	}
	digest, _, err := checkpoint.Key(key)
	return digest, err
}

// CasesOf returns the cases of the stage's plan, or nil if it has none.
func CasesOf(p *stage.Plan) *grid.Cases {
	if p == nil {
		return nil
	}
	if own, ok := p.Private.(*planned); ok {
		return own.cases
	}
	return grids.CasesOf(p)
}

// RunPart measures the cases of a part and returns how the task ended. The results are in the journal;
// the coordinator builds the table.
func (c *Config) RunPart(ctx context.Context, rc *stage.RunContext, part *Part) (executors.State, string) {
	fail := func(err error) (executors.State, string) { return executors.Failed, err.Error() }
	c.pinned = true
	r := &running{Config: c, rc: rc, shown: map[string]bool{}, part: part}
	if r.planned, _ = rc.Plan.Private.(*planned); r.planned == nil {
		return fail(errors.New("the cases are not known to the task's plan"))
	}

	// The coordinator has already withdrawn the cases that are measured again.
	rc.Options.Again, rc.Options.Retry = false, ""
	var err error
	if r.job, err = newJob(r.planned.cases, c.schema(r.planned.info.Perf), c.limits.groupBy, rc.Options); err != nil {
		return fail(err)
	}

	r.job.demands = r.demands()
	if err := r.job.excludeUnsupported(c.unsupported); err != nil {
		return fail(err)
	}

	mine := r.job.restrict(part.Places)
	if err := r.reuseExpected(ctx); err != nil {
		return fail(err)
	}

	if r.env == nil || len(r.job.todo()) > 0 {
		out, err := r.collect(ctx)
		switch {
		case err != nil && r.stopped() && errors.Is(err, context.Canceled):
		case err != nil:
			part.count(r, mine)
			return fail(err)
		case out != nil:
			return executors.Needs, out.Message
		}
	}

	part.count(r, mine)

	switch {
	case r.policy != nil && r.policy.stopped != "":
		return executors.Stopped, r.policy.stopped
	case r.stopped() && r.now == 0 && part.left(r, mine) > 0:
		return executors.Drained, "its time was over before the first case had ended; time and drain say how long it has"
	case r.stopped() && part.left(r, mine) > 0:
		return executors.Drained, ""
	}

	return executors.Done, ""
}

// restrict skips the tasks that are not at places and returns the units of the others.
func (j *job) restrict(places []int) []int {
	mine := make([]bool, len(j.tasks))
	for _, p := range places {
		if p >= 0 && p < len(mine) {
			mine[p] = true
		}
	}

	var out []int
	for i := range j.tasks {
		t := &j.tasks[i]
		for k := t.first; k < t.first+t.n; k++ {
			if mine[i] {
				out = append(out, int(k))
			} else {
				j.skip(&j.units[k], "not_selected", "another task has it")
			}
		}
		t.selected = t.selected && mine[i]
	}

	return out
}

// left returns the number of units without a result.
func (p *Part) left(r *running, mine []int) (n int) {
	for _, k := range mine {
		if u := &r.job.units[k]; u.state != measured && u.state != failed && u.class() != "not_selected" && u.noKernel() == "" {
			n++
		}
	}
	return n
}

// count reports the task's progress to the coordinator.
func (p *Part) count(r *running, mine []int) {
	failures, skips := 0, 0
	for _, k := range mine {
		switch r.job.units[k].state {
		case failed:
			failures++
		case skipped:
			skips++
		}
	}

	left := p.left(r, mine)
	p.Task.Update(false, func(s *executors.Status) {
		s.Measured, s.Failed, s.Skipped, s.Left = r.now, failures, skips, left
	})
}

// arrived reports the task's environment to the coordinator.
func (p *Part) arrived(env *runtimes.Environment) {
	p.driver = env.Env["driver"]
	raw, err := json.Marshal(env)
	if err != nil {
		return // cannot happen: an environment is plain text
	}
	p.Task.Update(true, func(s *executors.Status) { s.State, s.Environment = executors.Running, raw })
}

// mark adds the node and driver columns to the rows of a case.
func (p *Part) mark(o *worker.Outcome) {
	for _, row := range o.Rows {
		if _, own := row[NodeColumn]; !own {
			row[NodeColumn] = executors.NodeName()
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

// sharedGroups caches the group states that the coordinator derives from the rows of all tasks.
type sharedGroups struct {
	path string
	now  func() time.Time

	asked  time.Time
	groups executors.Groups
	works  map[string]bool
}

// askEvery is how often a task reads the groups file.
const askEvery = 2 * time.Second

func (s *sharedGroups) read() {
	if s.now().Sub(s.asked) < askEvery {
		return
	}

	s.asked = s.now()
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return // the file does not exist yet or is being replaced
	}

	var g executors.Groups
	if json.Unmarshal(raw, &g) != nil {
		return
	}

	s.groups, s.works = g, map[string]bool{}
	for _, name := range g.Worked {
		s.works[name] = true
	}
}

// apply trips the groups that the coordinator has tripped.
func (s *sharedGroups) apply(p *policy) {
	if s == nil {
		return
	}
	s.read()
	for name, why := range s.groups.Tripped {
		if g := p.groups[name]; g != nil && g.tripped == "" && g.measured == 0 {
			g.tripped = why
		}
	}
}

// worked reports whether any task has measured a case of the group.
func (s *sharedGroups) worked(group string) bool {
	if s == nil {
		return false
	}
	s.read()
	return s.works[group]
}
