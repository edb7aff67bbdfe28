package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/collect/policy"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

// followed is a collect whose shards run as executor tasks. It implements executors.Work.
type followed struct {
	r          *running
	order      *executors.Order
	keeper     *keeper // counts results and reports progress
	breaker    *policy.Breaker
	accepted   bool // the environment of a task was accepted
	otherNodes map[string]bool
	version    int // of the journal that was read last
	parts      []*partJournal
	outcome    *executors.Outcome
}

// partJournal is the journal of tasks that have not imported all code of the stage.
type partJournal struct {
	*checkpoint.Journal
	version int
}

// follow submits an order, unless attached is true, and follows its tasks until they end.
func (r *running) follow(ctx context.Context, o *executors.Order,
	attached bool) (*followed, error) {
	f := &followed{r: r, order: o, otherNodes: map[string]bool{}}
	f.count()
	if attached {
		n, _, err := o.Submitted()
		if err != nil {
			return f, err
		}
		f.Say("info", "follows the %d tasks that an earlier run has submitted", n)
	}

	follower := &executors.Follower{
		Config: r.place, Order: o, Work: f, Stop: r.rc.Stop, Detach: r.invocation.Detach,
		Script: r.script(r.rc.Address, r.rc.Store.Dir, r.rc.PlanDir, o.Dir),
	}

	wait := func() (err error) {
		f.outcome, err = follower.Follow(ctx)
		if err == nil && f.outcome.Detached {
			r.leaving(f.outcome)
		}
		return err
	}

	if r.rc.Unlocked != nil && !follower.Detach {
		follow := wait
		wait = func() error { return r.rc.Unlocked(follow) }
	}
	if err := wait(); err != nil {
		return f, err
	}

	return f, f.read()
}

// count counts the results that the journal had before the order.
func (f *followed) count() {
	j := f.r.job
	f.version = -1
	f.breaker = policy.NewBreaker(f.r.limits.TripAfter, j.groups, j.past())
	f.keeper = newKeeper(f.r)
}

// tasks returns the tasks of a shard.
func (f *followed) tasks(shard int) []int {
	return slices.DeleteFunc(slices.Clone(f.order.Shards[shard].Places), func(p int) bool {
		return p < 0 || p >= len(f.r.job.tasks)
	})
}

// Left implements executors.Work.
func (f *followed) Left(shard int) (n int) {
	for _, t := range f.tasks(shard) {
		n += f.r.job.count(t, open)
	}
	return n
}

// Waiting implements executors.Work.
func (f *followed) Waiting(text string) {
	f.r.message(stage.MessageStatus, "%s", text)
}

// Say implements executors.Work.
func (f *followed) Say(level, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if level == "info" {
		level, text = stage.MessageShow, f.r.rc.Address+": "+text
	}
	f.r.message(level, "%s", text)
}

// Take implements executors.Work. It reads new status reports of tasks and new journal entries.
func (f *followed) Take(said []*executors.Status) error {
	for _, s := range said {
		if line := s.Node + ": " + s.Note; s.Note != "" && !f.r.shown[line] {
			f.r.shown[line] = true
			f.Say("warn", "%s", line)
		}

		if len(s.Environment) == 0 {
			continue
		}

		env := new(runtimes.Environment)
		if err := json.Unmarshal(s.Environment, env); err != nil {
			f.Say("warn", "the environment of task %d cannot be read: %v", s.Shard, err)
			continue
		}

		if err := f.acceptEnvironment(s, env); err != nil {
			return err
		}
	}

	return f.read()
}

// acceptEnvironment accepts the environment of the first task, and of tasks that have imported code that no task had
// reported before. It reports nodes with a different environment: their rows are stored in a journal of their own.
func (f *followed) acceptEnvironment(s *executors.Status, env *runtimes.Environment) (err error) {
	r, before := f.r, f.r.journal
	if !f.accepted {
		f.accepted = true
		err = r.replaceAssumed(env, "its tasks go on")
	} else if diff := r.differences(r.env, env); diff != "" {
		if !f.otherNodes[s.Node] {
			f.otherNodes[s.Node] = true
			f.Say("error", "the node %s has another environment than the first one: %s; its rows are kept apart and do not "+
				"count here. Name nodes of one kind with constraint, or leave it out: options = { exclude = %q }",
				s.Node, diff, s.Node)
		}
		return nil
	} else if same, e := r.sameContext(env); e != nil || same {
		return e
	} else {
		err = f.join(env)
	}

	if err == nil && r.journal != before {
		f.count()
	}
	return err
}

// join accepts a task that has imported other code than the tasks before it. The stage then has the code of all of
// them, and its journal gets the rows of their journals.
func (f *followed) join(env *runtimes.Environment) error {
	r := f.r
	op := r.job.cases.Spec.Op
	known, code := r.codeIn(op, r.env), r.codeIn(op, env)
	if known == nil || code == nil || known.Entry != code.Entry {
		return r.useEnvironment(env)
	}
	switch same, err := r.sameContext(r.setCode(op, env, known)); {
	case err != nil:
		return err
	case !same:
		return r.useEnvironment(env)
	}

	all, err := known.Union(code)
	if err != nil {
		return r.replaced(err)
	}
	theirs, _, err := r.Config.journal(r.rc.Store, r.job.cases.Spec, env)
	if err != nil {
		return err
	}
	for _, j := range []*checkpoint.Journal{r.journal, theirs} {
		if !slices.ContainsFunc(f.parts, func(p *partJournal) bool { return p.Journal == j }) {
			f.parts = append(f.parts, &partJournal{j, -1})
		}
	}
	return r.moveTo(r.setCode(op, env, all), f.label())
}

// inherit adds the new rows of tasks that have not imported all code to the journal, and reports whether there are any.
func (f *followed) inherit() (any bool, err error) {
	for _, p := range f.parts {
		version, err := p.Refresh()
		if err == nil && version != p.version && p.Journal != f.r.journal {
			p.version, any = version, true
			err = f.r.journal.Inherit(p.Journal, f.label())
		}
		if err != nil {
			return any, err
		}
	}
	return any, nil
}

// read processes the journal entries that the tasks have written since the last call.
func (f *followed) read() error {
	r := f.r
	if r.journal == nil {
		return nil
	}
	inherited, err := f.inherit()
	if err != nil {
		f.Say("warn", "the journal of a task cannot be read, and is read again: %v", err)
	}

	version, err := r.journal.Refresh()
	if err != nil {
		f.Say("warn", "the journal cannot be read to its end, and is read again: %v", err)
	}
	if version == f.version && !inherited {
		return nil
	}

	f.version = version
	for i, u := range r.job.all() {
		if kind, ok := r.journal.Has(r.job.id(i)); ok && u.state == open {
			// Remember now, not at the end, so that the environment survives a killed coordinator.
			r.remember()
			if err := f.settle(i, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle records the result of a unit.
func (f *followed) settle(at int, kind checkpoint.Kind) error {
	r := f.r
	u := &r.job.units[at]
	f.keeper.stored(kind, nil)

	group := r.job.groupOf(int(u.task))
	if kind == checkpoint.Measured {
		u.state = measured
		f.breaker.Measured(group)
		return nil
	}

	u.state = failed
	e, err := failureOf(r.journal, r.job.id(at))
	if err != nil {
		return err
	}

	class, _ := policy.Classify(r.rules, e.Failure)
	f.keeper.failed(worker.Case{ID: r.job.cases.ID(int(u.task)), Op: r.planned.op(),
		Params: r.job.params(u), Attempt: e.Attempts}, class, e.Failure)
	if tripped := f.breaker.Failed(group, firstLine(e.Failure.Message)); tripped != "" {
		// Tasks that try its cases stop by themselves, because each has a breaker of its own.
		f.Say("error", "breaker: %s", tripped)
		r.job.close("tripped", tripped, r.job.inGroup(group))
	}
	return nil
}

// label returns what the labels of the stores of all tasks begin with.
func (f *followed) label() string { return strings.TrimSuffix(f.order.Label(0), "00000") }

// newRows returns the number of measured units whose rows were written by tasks of this order.
func (f *followed) newRows() (n int) {
	if f.r.journal == nil {
		return 0
	}

	label := f.label()
	journals := []*checkpoint.Journal{f.r.journal}
	for _, p := range f.parts {
		journals = append(journals, p.Journal)
	}
	for i, u := range f.r.job.all() {
		if u.state == measured && slices.ContainsFunc(journals, func(j *checkpoint.Journal) bool {
			return strings.Contains(j.Segment(f.r.job.id(i)), "-"+label)
		}) {
			n++
		}
	}
	return n
}
