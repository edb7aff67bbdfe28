package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

// followed is a collect whose shards run as executor tasks. It implements executors.Work.
type followed struct {
	r          *running
	order      *executors.Order
	shardOf    []int32 // by unit; -1 if the unit is in no shard
	left       []int   // open units by shard
	keeper     *keeper // counts results and reports progress
	groups     map[string]*group
	published  executors.Groups
	changed    bool // published differs from the groups file that the tasks read
	accepted   bool // the environment of a task was accepted
	otherNodes map[string]bool
	version    int // of the journal that was read last
	outcome    *executors.Outcome
}

// follow submits an order, unless attached is true, and follows its tasks until they end.
func (r *running) follow(ctx context.Context, s *executors.Scheduler, o *executors.Order,
	attached bool) (*followed, error) {
	f := &followed{r: r, order: o, otherNodes: map[string]bool{}}
	f.count()
	f.keeper = newKeeper(r.job, nil, r.rc.Events, r.rc.Address)
	if attached {
		n, err := o.Submitted()
		if err != nil {
			return f, err
		}
		text := fmt.Sprintf("%s: follows the %d tasks that an earlier run has submitted", r.rc.Address, n)
		r.rc.Events.Message(r.rc.Address, stage.MessageShow, text)
	}

	follower := &executors.Follower{
		Config: r.place, Order: o, Scheduler: s, Work: f, Stop: r.rc.Stop, Detach: r.invocation.Detach,
		Script: r.script(r.rc.Address, r.rc.Store.Dir(), r.rc.PlanDir, o.Dir()),
	}

	var err error
	if f.outcome, err = follower.Follow(ctx); err != nil {
		return f, err
	}

	return f, f.read()
}

// count counts the open units of each shard.
func (f *followed) count() {
	j := f.r.job
	f.left, f.version = make([]int, len(f.order.Shards)), -1
	f.shardOf = make([]int32, len(j.units))
	for i := range f.shardOf {
		f.shardOf[i] = -1
	}

	for s, shard := range f.order.Shards {
		for _, p := range shard.Places {
			if p < 0 || p >= len(j.tasks) {
				continue
			}
			t := &j.tasks[p]
			for k := t.first; k < t.first+t.n; k++ {
				f.shardOf[k] = int32(s)
				if j.units[k].state == open {
					f.left[s]++
				}
			}
		}
	}

	f.groups = map[string]*group{}
	for name, g := range j.record() {
		f.groups[name] = &group{measured: g.measured, earlier: g.failed}
	}
}

// Left implements executors.Work.
func (f *followed) Left(shard int) int { return f.left[shard] }

// Waiting implements executors.Work.
func (f *followed) Waiting(text string) {
	f.r.rc.Events.Message(f.r.rc.Address, stage.MessageStatus, text)
}

// Say implements executors.Work.
func (f *followed) Say(level, text string) {
	if level == "info" {
		level, text = stage.MessageShow, f.r.rc.Address+": "+text
	}
	f.r.rc.Events.Message(f.r.rc.Address, level, text)
}

// Take implements executors.Work. It reads new status reports of tasks and new journal entries.
func (f *followed) Take(said []*executors.Status) error {
	for _, s := range said {
		if line := s.Node + ": " + s.Note; s.Note != "" && !f.r.shown[line] {
			f.r.shown[line] = true
			f.Say("warn", line)
		}

		if len(s.Environment) == 0 {
			continue
		}

		env := new(runtimes.Environment)
		if err := json.Unmarshal(s.Environment, env); err != nil {
			f.Say("warn", fmt.Sprintf("what task %d says of its environment cannot be read: %v", s.Shard, err))
			continue
		}

		if err := f.acceptEnvironment(s, env); err != nil {
			return err
		}
	}

	return f.read()
}

// acceptEnvironment accepts the environment of the first task and reports nodes with a different one. Rows from those
// nodes are stored in the journal of their own environment.
func (f *followed) acceptEnvironment(s *executors.Status, env *runtimes.Environment) error {
	r := f.r
	if !f.accepted {
		f.accepted = true
		same, err := r.compareAssumed(env, "its tasks go on")
		if err != nil {
			return err
		}

		if same {
			r.env = env
			return nil
		}

		if err := r.useEnvironment(env); err != nil {
			return err
		}

		f.count()
		f.keeper = newKeeper(r.job, nil, r.rc.Events, r.rc.Address)
		return nil
	}

	diff := r.differences(r.env, env)
	if diff == "" {
		same, err := r.sameContext(env)
		if err != nil || same {
			return err
		}
		// The task has imported code that no task had reported before.
		if err := r.useEnvironment(env); err != nil {
			return err
		}
		f.count()
		f.keeper = newKeeper(r.job, nil, r.rc.Events, r.rc.Address)
		return nil
	}
	if f.otherNodes[s.Node] {
		return nil
	}

	f.otherNodes[s.Node] = true
	f.Say("error", fmt.Sprintf("the node %s does not measure where the first one did: %s; its rows are kept apart and do not count here. Name nodes of one kind with constraint, or leave it out: options = { exclude = %q }",
		s.Node, diff, s.Node))

	return nil
}

// read processes the journal entries that the tasks have written since the last call.
func (f *followed) read() error {
	r := f.r
	if r.journal == nil {
		return nil
	}

	version, err := r.journal.Refresh()
	if err != nil {
		f.Say("warn", fmt.Sprintf("the journal cannot be read to its end, and is read again: %v", err))
	}

	changed := version != f.version
	f.version = version
	for i := range r.job.units {
		if !changed {
			break
		}
		if kind, ok := r.journal.Has(r.job.id(i)); ok && r.job.units[i].state == open {
			// Remember now, not at the end, so that the environment survives a killed coordinator.
			r.remember()
			f.settle(i, kind)
		}
	}

	if f.changed {
		f.changed = false
		if err := f.order.WriteGroups(f.published); err != nil {
			f.Say("warn", fmt.Sprintf("the tasks cannot be told which groups fail: %v", err))
		}
	}

	return nil
}

// settle records the result of a unit.
func (f *followed) settle(at int, kind checkpoint.Kind) {
	r := f.r
	u := &r.job.units[at]
	if s := f.shardOf[at]; s >= 0 {
		f.left[s]--
	}

	g := f.groups[r.job.group(int(u.task))]
	if kind == checkpoint.Measured {
		u.state = measured
		if g.measured == 0 {
			f.published.Worked, f.changed = append(f.published.Worked, r.job.group(int(u.task))), true
		}
		g.measured++
		f.keeper.stored(kind, nil)
		return
	}

	u.state = failed
	f.keeper.stored(kind, nil)
	e, ok, err := r.journal.Lookup(r.job.id(at))
	if err != nil || !ok {
		return // load reports the error
	}

	d, err := rows.Decode(e)
	if err != nil || d.Failure == nil {
		return
	}

	g.last = firstLine(d.Failure.Message)
	if g.measured == 0 {
		g.failures++
	}

	class, _ := classify(r.rules, d.Failure)
	if r.policy.shownFailures == nil {
		r.policy.shownFailures = map[string]int{}
	}

	c := worker.Case{ID: r.job.cases.ID(int(u.task)), Op: r.opName(r.job.cases.Spec().Op), Params: r.job.params(u),
		Attempt: d.Attempts}

	f.keeper.failed(c, class, d.Failure, r.policy.tellTimes(class, d.Failure))
	name := r.job.group(int(u.task))
	if n := r.limits.tripAfter; n > 0 && g.measured == 0 && g.earlier+g.failures >= n && g.tripped == "" {
		f.trip(name, g)
	}
}

// trip ends a group in all tasks.
func (f *followed) trip(name string, g *group) {
	g.tripped = tripText(name, g.earlier+g.failures, g.last)
	f.Say("error", "breaker: "+g.tripped)
	if f.published.Tripped == nil {
		f.published.Tripped = map[string]string{}
	}

	f.published.Tripped[name], f.changed = g.tripped, true
	j := f.r.job
	for i := range j.units {
		u := &j.units[i]
		if u.state != open || j.group(int(u.task)) != name {
			continue
		}
		j.skip(u, "tripped", g.tripped)
		if s := f.shardOf[i]; s >= 0 {
			f.left[s]--
		}
	}
}

// newRows returns the number of measured units whose rows were written by tasks of this order.
func (f *followed) newRows() (n int) {
	if f.r.journal == nil {
		return 0
	}

	label := strings.TrimSuffix(f.order.Label(0), "00000")
	for i := range f.r.job.units {
		u := &f.r.job.units[i]
		if u.state == measured && strings.Contains(f.r.journal.Segment(f.r.job.id(i)), "-"+label) {
			n++
		}
	}

	return n
}
