package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

// lostClass is the ledger's word for cases of tasks that were given up.
const lostClass = "lost"

// Elsewhere implements stage.Placer.
func (c *Config) Elsewhere() bool { return c.place.Elsewhere() }

// tooFew says what a runtime over several nodes needs and the executor does not
// give; "" where it fits.
func (c *Config) tooFew() string {
	if c.runtime == nil || !c.place.Elsewhere() {
		return ""
	}
	want := func(name string) int {
		v, ok := c.runtime.Options[name]
		if !ok || v.IsNull() || !v.IsWhollyKnown() || v.Type() != cty.Number {
			return 0
		}
		n, _ := v.AsBigFloat().Int64()
		return int(n)
	}
	nodes, perNode := want("nodes"), want("gpus_per_node")
	switch {
	case nodes > c.place.Nodes:
		return fmt.Sprintf("%s has %d nodes and a task of %s has %d; set nodes of the executor", c.runtime.Address, nodes, c.place.Address, c.place.Nodes)
	case nodes > 1 && c.place.GPUsPerNode > 0 && perNode > c.place.GPUsPerNode:
		return fmt.Sprintf("%s uses %d GPUs of each node and a task of %s has %d; set gpus_per_node of the executor", c.runtime.Address, perNode, c.place.Address, c.place.GPUsPerNode)
	case nodes > 1 && perNode > c.place.TasksPerNode && c.place.CPUsPerTask <= 1:
		return fmt.Sprintf("%s starts %d processes on each node and a task of %s has room for %d; set tasks_per_node of the executor", c.runtime.Address, perNode, c.place.Address, c.place.TasksPerNode)
	}
	return ""
}

// distribute lets the tasks of the executor measure what is open, and waits for
// them. Where tasks of an earlier call of the same plan still wait or run, it
// follows those.
func (r *running) distribute(ctx context.Context) (*stage.Outcome, error) {
	if r.stopped() {
		return nil, r.giveUp()
	}
	if lacks := r.invocation.Lacks; len(lacks) > 0 {
		return nil, fmt.Errorf("var.%s is sensitive and was given with -var, so the tasks would not have it: give it in the environment, as AICPLAN_VAR_%s, which sbatch hands on", lacks[0], lacks[0])
	}
	key, err := r.OrderKey(r.planned.cases)
	if err != nil {
		return nil, err
	}
	scheduler := &executors.Scheduler{}
	home := executors.Home(r.rc.Store.Dir(), r.rc.Address)
	order, err := executors.Latest(home)
	if err != nil {
		return nil, err
	}
	if order != nil && order.Key == key {
		// A coordinator that was killed could not keep what its tasks have said.
		if err := r.learn(order); err != nil {
			return nil, err
		}
	}
	if order != nil {
		active, err := executors.Active(ctx, scheduler, order)
		switch {
		case err != nil:
			return nil, fmt.Errorf("it is not known whether jobs of an earlier call still wait or run, so nothing is submitted: %w; try again", err)
		case len(active) == 0:
			order = nil
		case order.Key != key:
			return nil, fmt.Errorf("%d jobs of an earlier plan of this stage still wait or run, and that plan was another: wait for them, or end them: scancel %s", len(active), strings.Join(arraysOf(active), " "))
		}
	}
	if r.rc.Replace != nil {
		if err := r.rc.Replace(); err != nil {
			return nil, err
		}
	}
	if r.journal != nil {
		if err := r.job.withdraw(r.journal, r.rc.Options); err != nil {
			return nil, fmt.Errorf("what is to be measured again cannot be withdrawn: %w", err)
		}
	}
	r.policy = &policy{} // for what verdict says of the ramp
	if order == nil && r.env != nil && len(r.job.todo()) == 0 {
		return nil, nil // tasks of an earlier call have measured all
	}
	for {
		attached := order != nil
		if !attached {
			if order, err = r.newOrder(home, key); err != nil {
				return nil, err
			}
		}
		f, err := r.follow(ctx, scheduler, order, attached)
		if err != nil {
			if r.env != nil {
				r.settleFound(f)
			}
			return nil, err
		}
		if f == nil { // stopped
			return nil, r.giveUp()
		}
		if attached && f.outcome.Stopped == "" && !f.outcome.Detached && r.env != nil && len(r.job.todo()) > 0 && len(f.outcome.Lost) == 0 {
			order = nil // the plan has more cases than the order that was found
			continue
		}
		return r.concluded(f)
	}
}

// learn takes the environment that a task of an earlier call has reported, where
// none is known: what the tasks have measured counts.
func (r *running) learn(o *executors.Order) error {
	for shard := range o.Shards {
		if r.env != nil {
			return nil
		}
		s, err := o.Status(shard)
		if err != nil || s == nil || len(s.Environment) == 0 {
			continue
		}
		env := new(runtimes.Environment)
		if err := json.Unmarshal(s.Environment, env); err != nil {
			continue
		}
		if err := r.settleIn(env); err != nil {
			return err
		}
		if r.journal.Len() > 0 {
			r.remember()
		}
	}
	return nil
}

// arraysOf are the ids of arrays, from those of tasks.
func arraysOf(jobs []string) []string {
	var out []string
	for _, j := range jobs {
		array, _, _ := strings.Cut(j, "_")
		if !slices.Contains(out, array) {
			out = append(out, array)
		}
	}
	return out
}

// Script is what jobs of the collect would be started with that ask for a, for a
// dry run.
func (c *Config) Script(a stage.RequestArray, stageAddress, stateDir, planDir string) string {
	const order = "ORDER" // takes its name from the time
	return c.place.Sized(a.Nodes * a.GPUsPerNode).Text(c.script(stageAddress, stateDir, planDir, order, executors.Home(stateDir, stageAddress)+"/"+order))
}

func (c *Config) script(address, stateDir, planDir, order, dir string) executors.Script {
	logs := c.place.Logs
	if logs == "" {
		logs = dir + "/logs"
	}
	return executors.Script{Stage: address, Order: order, OrderDir: dir, StateDir: stateDir, PlanDir: planDir, LogDir: logs, Program: thisProgram()}
}

// thisProgram is the path under which this program was called: that of the file
// behind a link may go with the next version.
func thisProgram() string {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		path, err = os.Executable()
	}
	if err != nil {
		return "aicplan"
	}
	return path
}

// followed is a collect whose shards are followed. It implements
// executors.Work.
type followed struct {
	r       *running
	order   *executors.Order
	places  [][]int
	unitOf  map[string]int32
	shardOf []int32 // by unit; -1
	left    []int   // by shard
	keeper  *keeper // counts and tells
	groups  map[string]*group
	told    executors.Groups
	changed bool // told differs from what the tasks know
	met     bool // the environment of a task was taken
	foreign map[string]bool
	seen    map[*checkpoint.Journal]int // how far each was read
	outcome *executors.Outcome
}

// follow submits and follows an order. Nil without an error means that the user
// stopped it before anything was known.
func (r *running) follow(ctx context.Context, s *executors.Scheduler, o *executors.Order, attached bool) (*followed, error) {
	f := &followed{r: r, order: o, foreign: map[string]bool{}, seen: map[*checkpoint.Journal]int{}}
	var err error
	if f.places, err = o.AllPlaces(); err != nil {
		return f, err
	}
	f.count()
	f.keeper = newKeeper(r.job, nil, r.rc.Events, r.rc.Address)
	if attached {
		r.rc.Events.Message(r.rc.Address, stage.MessageShow, fmt.Sprintf("%s: follows the %d tasks that an earlier call has submitted", r.rc.Address, len(o.Shards)))
	}
	follower := &executors.Follower{
		Config: r.place, Order: o, Scheduler: s, Work: f, Stop: r.rc.Stop, CancelOnStop: r.invocation.CancelOnStop,
		Script: r.script(r.rc.Address, r.rc.Store.Dir(), r.rc.PlanDir, o.ID, o.Dir()),
	}
	f.outcome, err = follower.Follow(ctx)
	if err != nil {
		return f, err
	}
	return f, f.read()
}

// count finds out which units are open, by shard.
func (f *followed) count() {
	j := f.r.job
	f.left = make([]int, len(f.places))
	f.unitOf = make(map[string]int32, len(j.units))
	f.shardOf = make([]int32, len(j.units))
	for i := range f.shardOf {
		f.shardOf[i] = -1
		f.unitOf[j.id(i)] = int32(i)
	}
	for s, places := range f.places {
		for _, p := range places {
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

// Take implements executors.Work.
func (f *followed) Take(said []*executors.Status) error {
	for _, s := range said {
		if line := s.Node + ": " + s.Note; s.Note != "" && !f.r.heard[line] {
			f.r.heard[line] = true
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
		if err := f.meet(s, env); err != nil {
			return err
		}
	}
	return f.read()
}

// meet takes the environment of the first task, and tells of others that differ:
// their rows are kept under their own conditions.
func (f *followed) meet(s *executors.Status, env *runtimes.Environment) error {
	r := f.r
	if !f.met {
		f.met = true
		if r.env != nil {
			env.Sources = r.env.Sources
			same, err := r.sameContext(env)
			if err != nil {
				return err
			}
			if same {
				r.env = env
				return nil
			}
			f.Say("warn", "the environment is not the one that the plan assumed: "+r.differences(r.env, env))
		}
		if err := r.settleIn(env); err != nil {
			return err
		}
		f.count()
		f.keeper = newKeeper(r.job, nil, r.rc.Events, r.rc.Address)
		return nil
	}
	diff := r.differences(r.env, env)
	if diff == "" || f.foreign[s.Node] {
		return nil
	}
	f.foreign[s.Node] = true
	f.Say("error", fmt.Sprintf("the node %s does not measure where the first one did: %s; its rows are kept apart and do not count here. Name nodes of one kind with constraint, or leave it out: options = { exclude = %q }", s.Node, diff, s.Node))
	return nil
}

// read takes in what the tasks have stored since.
func (f *followed) read() error {
	r := f.r
	if r.journal == nil {
		return nil
	}
	ids, seen, err := r.journal.Refresh(f.seen[r.journal])
	f.seen[r.journal] = seen
	if err != nil {
		f.Say("warn", fmt.Sprintf("the journal cannot be read to its end, and is read again: %v", err))
	}
	if len(ids) > 0 {
		// Not at the end: a coordinator that is killed must leave it behind.
		r.remember()
	}
	for _, id := range ids {
		at, ok := f.unitOf[id]
		if !ok {
			continue
		}
		u := &r.job.units[at]
		if u.state != open {
			continue
		}
		kind, ok := r.journal.Has(id)
		if !ok {
			continue
		}
		f.settle(int(at), kind)
	}
	if f.changed {
		f.changed = false
		if err := f.order.WriteGroups(f.told); err != nil {
			f.Say("warn", fmt.Sprintf("the tasks cannot be told which groups fail: %v", err))
		}
	}
	return nil
}

// settle takes the result of a unit.
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
			f.told.Worked, f.changed = append(f.told.Worked, r.job.group(int(u.task))), true
		}
		g.measured++
		f.keeper.stored(kind, nil)
		return
	}
	u.state = failed
	f.keeper.stored(kind, nil)
	e, ok, err := r.journal.Lookup(r.job.id(at))
	if err != nil || !ok {
		return // load says what is wrong with it
	}
	d, err := decodeEntry(e.Payload)
	if err != nil || d.Failure == nil {
		return
	}
	g.last = firstLine(d.Failure.Message)
	if g.measured == 0 {
		g.failures++
	}
	class, _ := classify(r.rules, d.Failure)
	if r.policy.told == nil {
		r.policy.told = map[string]int{}
	}
	c := worker.Case{ID: r.job.cases.ID(int(u.task)), Op: r.opName(r.job.cases.Spec().Op), Params: r.job.params(u), Attempt: d.Attempts}
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
	if f.told.Tripped == nil {
		f.told.Tripped = map[string]string{}
	}
	f.told.Tripped[name], f.changed = g.tripped, true
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

// settleFound closes the units that were found before an error.
func (r *running) settleFound(f *followed) {
	if f != nil && f.keeper != nil {
		r.now = f.newRows()
	}
}

// newRows counts the units whose rows tasks of the order have written.
func (f *followed) newRows() (n int) {
	label := strings.TrimSuffix(f.order.Label(0), "00000")
	for i := range f.r.job.units {
		u := &f.r.job.units[i]
		if u.state == measured && strings.Contains(f.r.journal.Segment(f.r.job.id(i)), "-"+label) {
			n++
		}
	}
	return n
}

// concluded turns how the following ended into the states of the open units.
func (r *running) concluded(f *followed) (*stage.Outcome, error) {
	out := f.outcome
	n := r.job.tally()
	if r.env == nil && out.Detached {
		r.leaving(out)
		return nil, context.Canceled
	}
	if r.env == nil || n.Measured+n.Failed == 0 && !out.Detached {
		switch {
		case out.Stopped != "":
			return nil, fmt.Errorf("no task could measure: %s", out.Stopped)
		}
		for _, i := range slices.Sorted(maps.Keys(out.Lost)) {
			return nil, fmt.Errorf("no task could measure; task %d: %s", i, out.Lost[i])
		}
		return nil, fmt.Errorf("no task has said where it measures")
	}
	r.now = f.newRows()
	r.reused = r.job.tally().Measured - r.now
	if r.now > 0 {
		r.remember()
	}
	switch {
	case out.Detached:
		r.leaving(out)
		r.policy.stopped = ""
		for i := range r.job.units {
			if u := &r.job.units[i]; u.state == open {
				r.job.skip(u, "interrupted", "the run was stopped while its task waited or ran")
			}
		}
	case out.Stopped != "":
		r.policy.stopped = out.Stopped
		f.Say("error", "ramp: "+out.Stopped)
	}
	for i := range r.job.units {
		u := &r.job.units[i]
		if u.state != open {
			continue
		}
		switch {
		case out.Stopped != "":
			r.job.skip(u, "ramp", out.Stopped)
		case f.shardOf[i] >= 0 && out.Lost[int(f.shardOf[i])] != "":
			r.job.skip(u, lostClass, out.Lost[int(f.shardOf[i])])
		default:
			r.job.skip(u, lostClass, "no task has it")
		}
	}
	return nil, nil
}

// leaving says what becomes of the jobs.
func (r *running) leaving(out *executors.Outcome) {
	if len(out.Jobs) == 0 {
		return
	}
	jobs := strings.Join(out.Jobs, " ")
	text := fmt.Sprintf("%s: the jobs %s go on; the same command follows them, and scancel %s ends them", r.rc.Address, jobs, jobs)
	if r.invocation.CancelOnStop {
		text = fmt.Sprintf("%s: the jobs %s are cancelled; what they have stored is kept", r.rc.Address, jobs)
	}
	r.rc.Events.Message(r.rc.Address, stage.MessageShow, text)
}
