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

	"aicplan/engine/stage"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

// lostClass is the ledger's word for cases of tasks that were given up.
const lostClass = "lost"

// Elsewhere implements stage.Placer.
func (c *Config) Elsewhere() bool { return c.place.Elsewhere() }

// Warm implements stage.Warmer by the runtime, whose workers stay warm unless its
// kind ends them.
func (c *Config) Warm() string {
	if c.runtime == nil || c.kind().Released {
		return ""
	}
	return c.runtime.Address
}

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
	scheduler := &executors.Scheduler{Set: r.place.Set()}
	home := executors.Home(r.rc.Store.Dir(), r.rc.Address)
	order, err := executors.Latest(home, r.rc.Address)
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
			if order.Key == key && len(r.job.todo()) > 0 {
				r.sayEndings(ctx, scheduler, order)
			}
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

// sayEndings says how tasks of an earlier call ended that nobody followed to the
// end: what they left is submitted anew.
func (r *running) sayEndings(ctx context.Context, s *executors.Scheduler, o *executors.Order) {
	lines, err := o.Endings(ctx, r.place, s)
	if err != nil {
		lines = []string{err.Error()}
	}
	for _, line := range lines {
		r.rc.Events.Message(r.rc.Address, stage.MessageShow, r.rc.Address+": "+line)
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
