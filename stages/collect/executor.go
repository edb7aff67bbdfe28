package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

// lostClass is the ledger class of cases whose tasks were given up.
const lostClass = "lost"

// Elsewhere implements stage.DeviceUser.
func (c *Config) Elsewhere() bool { return c.place.Elsewhere() }

// Warm implements stage.DeviceUser. It returns the runtime's address if the workers keep running after a
// stage, or "" if the kind of the runtime stops them.
func (c *Config) Warm() string {
	if c.kind().Released {
		return ""
	}
	return c.runtime.Address
}

// tooFew returns a message if a runtime on several nodes needs more than the executor provides, or "".
func (c *Config) tooFew() string {
	if c.runtime == nil || !c.place.Elsewhere() {
		return ""
	}

	nodes, perNode := c.number("nodes"), c.number("gpus_per_node")
	switch {
	case c.onOneNode() && c.place.Nodes > 1 && len(c.place.GPUsBy) == 0:
		return fmt.Sprintf(
			"%s starts a server on one node and a task of %s has %d; set nodes of the executor to 1, or begin the command "+
				"with srun",
			c.runtime.Address,
			c.place.Address,
			c.place.Nodes,
		)
	case nodes > c.place.Nodes:
		return fmt.Sprintf("%s has %d nodes and a task of %s has %d; set nodes of the executor", c.runtime.Address,
			nodes, c.place.Address, c.place.Nodes)
	case nodes > 1 && c.place.GPUsPerNode > 0 && perNode > c.place.GPUsPerNode:
		return fmt.Sprintf("%s uses %d GPUs of each node and a task of %s has %d; set gpus_per_node of the executor",
			c.runtime.Address, perNode, c.place.Address, c.place.GPUsPerNode)
	case nodes > 1 && perNode > c.place.TasksPerNode:
		return fmt.Sprintf(
			"%s starts %d processes on each node and a task of %s has room for %d; set tasks_per_node of the executor",
			c.runtime.Address,
			perNode,
			c.place.Address,
			c.place.TasksPerNode,
		)
	}
	return ""
}

// option returns an option of a runtime with its JSON type, or its zero value.
func option[T any](rt *stage.Runtime, name string) (out T) {
	plain, _ := runtimes.Plain(rt.Options[name])
	out, _ = plain.(T)
	return out
}

// number returns an option of the runtime that is a whole number, or 0.
func (c *Config) number(name string) int {
	n, _ := option[json.Number](c.runtime, name).Int64()
	return int(n)
}

// onOneNode reports whether the servers of the runtime run on one node.
func (c *Config) onOneNode() bool {
	if !c.kind().OneNode {
		return false
	}
	command := option[[]any](c.runtime, "command")
	if len(command) == 0 {
		return true
	}
	program, _ := command[0].(string)
	return filepath.Base(program) != "srun"
}

// distribute submits the open cases to the executor as tasks and waits for them. If tasks of an earlier
// process with the same plan are still pending or running, it follows those instead.
func (r *running) distribute(ctx context.Context) error {
	if r.rc.Stopped() {
		return r.giveUp()
	}

	if lacks := r.invocation.Lacks; len(lacks) > 0 {
		return fmt.Errorf(
			"var.%s is sensitive and was given with --var, so the tasks would not have it: set AICPLAN_VAR_%s in the "+
				"environment, which sbatch passes on",
			lacks[0],
			lacks[0],
		)
	}

	key, err := r.OrderKey(r.planned.Cases)
	if err != nil {
		return err
	}

	home := executors.Home(r.rc.Store.Dir, r.rc.Address)
	order, err := executors.Latest(home, r.rc.Address)
	if err != nil {
		return err
	}

	if r.env != nil && r.journal.Len() > 0 {
		r.remember() // the earlier process may have ended before its tasks reported
	}

	if order != nil {
		active, err := executors.Active(ctx, order)
		_, unclear, damaged := order.Submitted()
		switch err = errors.Join(err, damaged); {
		case err != nil:
			return fmt.Errorf("nothing is submitted, since jobs of an earlier run may still wait or run: %w; try again",
				err)
		case order.Cancelled(), len(active) == 0 && (order.Key != key || !unclear):
			order = nil
		case order.Key != key:
			return fmt.Errorf(
				"%d jobs of an earlier run of this stage still wait or run, and the plan has changed: wait for them, or end them "+
					"with aicplan cancel",
				len(active),
			)
		}
	}

	if err := r.withdraw(); err != nil {
		return err
	}

	r.ran, r.job.shared = true, true
	attached := order != nil
	for {
		if !attached {
			if r.env != nil && len(r.job.todo()) == 0 {
				return nil // tasks of an earlier run have measured all cases
			}
			if order, err = r.newOrder(home, key); err != nil {
				return err
			}
		}

		f, err := r.follow(ctx, order, attached)
		if err != nil {
			r.now += f.newRows()
			return err
		}

		out := f.outcome
		if (attached || r.reopened) && out.Stopped == "" && !out.Detached && len(out.Lost) == 0 && r.env != nil &&
			len(r.job.todo()) > 0 {
			attached, r.reopened = false, false // the plan has cases that the order does not have
			r.now += f.newRows()
			if code := r.codeIn(r.job.cases.Spec.Op, r.env); code != nil {
				r.code.Store(code) // what the next tasks are expected to import
			}
			if key, err = r.OrderKey(r.planned.Cases); err != nil {
				return err
			}
			continue
		}

		return r.concluded(f)
	}
}

// reportedBy returns the environment that the first task of an order has reported, or nil.
func reportedBy(o *executors.Order) *runtimes.Environment {
	for shard := range o.Shards {
		s, err := o.Status(shard)
		if err != nil || s == nil || len(s.Environment) == 0 {
			continue // other tasks report the same
		}

		env := new(runtimes.Environment)
		if json.Unmarshal(s.Environment, env) == nil {
			return env
		}
	}

	return nil
}

// submitted returns the environment that tasks of an earlier run with the same plan have reported, with its
// description. It is nil if there are none.
func (c *Config) submitted(
	store *checkpoint.Store,
	stageAddress string,
	cases *grid.Cases,
) (env *runtimes.Environment, assumed string) {
	key, err := c.OrderKey(cases)
	if err != nil {
		return nil, "" // a run reports it
	}

	order, err := executors.Latest(executors.Home(store.Dir, stageAddress), stageAddress)
	if err != nil || order == nil || order.Key != key {
		return nil, ""
	}

	if env = reportedBy(order); env == nil {
		return nil, ""
	}
	return env, env.String() + ", as its tasks have reported"
}

// Script returns the batch script for the jobs of a, for a dry run.
func (c *Config) Script(a stage.RequestArray, stageAddress, stateDir, planDir string) string {
	dir := executors.Home(stateDir, stageAddress) + "/ORDER" // the name of a real order is random
	return c.place.Sized(a.Nodes * a.GPUsPerNode).Text(c.script(stageAddress, stateDir, planDir, dir))
}

func (c *Config) script(address, stateDir, planDir, dir string) executors.Script {
	logs := c.place.Logs
	if logs == "" {
		logs = dir + "/logs"
	}
	return executors.Script{Stage: address, OrderDir: dir, StateDir: stateDir, PlanDir: planDir, LogDir: logs,
		Program: thisProgram()}
}

// thisProgram returns the path by which this program was called. Links are not resolved because the next
// version may remove their target.
func thisProgram() string {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "aicplan"
	}
	return path
}

// concluded sets the final state of the open units when the executor's tasks have ended.
func (r *running) concluded(f *followed) error {
	out := f.outcome
	n := r.job.tally()
	switch {
	case r.env == nil && out.Detached:
		return context.Canceled
	case r.env != nil && (n.Measured+n.Failed > 0 || out.Detached):
	case out.Stopped != "":
		return fmt.Errorf("no task could measure: %s", out.Stopped)
	default:
		for _, i := range slices.Sorted(maps.Keys(out.Lost)) {
			return fmt.Errorf("no task could measure; task %d: %s", i, out.Lost[i])
		}
		return fmt.Errorf("no task has reported its environment")
	}

	r.now += f.newRows()
	r.reused = r.job.tally().Measured - r.now
	if r.now > 0 {
		r.remember()
	}

	if r.stopText = out.Stopped; out.Stopped != "" {
		f.Say("error", "ramp: %s", out.Stopped)
	}

	switch {
	case out.Detached:
		r.job.close("interrupted", "its task continues without this run", allUnits)
	case out.Stopped != "":
		r.job.close("ramp", out.Stopped, allUnits)
	}
	for shard, why := range out.Lost {
		for _, t := range f.tasks(shard) {
			for _, i := range r.job.openUnits(t) {
				r.job.units[i].skip(&skip{lostClass, why})
			}
		}
	}
	r.job.close(lostClass, "no task has it", allUnits)
	return nil
}

// leaving reports that the remaining jobs continue.
func (r *running) leaving(out *executors.Outcome) {
	if len(out.Jobs) == 0 {
		return
	}
	jobs := strings.Join(out.Jobs, " ")
	r.message(stage.MessageShow, "%s: the jobs %s continue: the same command follows them, aicplan cancel ends them",
		r.rc.Address, jobs)
}
