package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/proc"
	"aicplan/sink/base/textutil"
	"aicplan/stages/collect"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
)

type taskCmd struct {
	Order      string `arg:"" help:"Folder of the order." type:"path"`
	Offset     int    `help:"Shard of the array's index 0."`
	Submission int    `help:"Number of the submission."`
}

// Run measures one shard of an order. Jobs run this command.
func (c *taskCmd) Run(a *app) error {
	a.endPlanning()
	order, err := executors.OpenOrder(c.Order)
	if err != nil {
		return err
	}

	task, err := executors.OpenTask(order, c.Offset, c.Submission)
	if err != nil {
		return err
	}

	signals := watchSignals()
	defer signals.close()

	ended := make(chan struct{})
	fenced := make(chan error, 1)
	var beating sync.WaitGroup
	beating.Go(func() {
		if err := task.Beat(ended); err != nil {
			fenced <- err
			signals.drain()
		}
	})

	state, message := c.measure(a, order, task, signals.stop.Done())
	close(ended)
	beating.Wait()

	select {
	case err := <-fenced:
		return err // the other try reports the shard's status
	default:
	}

	fmt.Fprintf(a.stdout, "%s task %d on %s: %s %s\n", time.Now().Format(time.RFC3339), task.Shard,
		proc.NodeName(), state, message)

	if err := task.End(state, message); err != nil {
		return err
	}

	switch state {
	case executors.Done:
		return nil
	case executors.Drained:
		// If nothing was measured, another try would end in the same way.
		if signals.limit.Load() && message == "" && task.Requeue(context.Background()) {
			signals.awaitEnd()
		}
		return nil
	}

	return errors.New(message)
}

// measure makes the plan and measures the shard's cases. It returns the final state and a message.
func (c *taskCmd) measure(a *app, order *executors.Order, task *executors.Task,
	stop <-chan struct{}) (executors.State, string) {
	fail := func(format string, args ...any) (executors.State, string) {
		return executors.Failed, fmt.Sprintf(format, args...)
	}

	if order.Version != version {
		return fail("the jobs were submitted by aicplan %s and this is %s: use the same version", order.Version, version)
	}

	if err := os.Chdir(order.WorkDir); err != nil {
		return fail("the folder in which the plan was applied is not on this node: %v", err)
	}

	a.environ = append(a.environ, order.Environ...)
	store, err := a.open(false, order.Label(task.Shard))
	if err != nil {
		return fail("%v", err)
	}

	defer store.Close()
	all := a.stages()
	defer all.Close()
	p, err := a.plan(context.Background(), planFlags{Path: order.Path, Var: order.Vars, VarFile: order.VarFiles},
		plan.Options{Stage: order.Options, Targets: []string{order.Stage}, OutDir: order.OutDir})

	if err != nil {
		return fail("the plan cannot be made on this node: %v", err)
	}

	s := p.Stage(order.Stage)
	if s == nil || s.Config == nil {
		return fail("the plan has no stage %s any more: it was changed after the jobs were submitted", order.Stage)
	}

	cfg, ok := s.Config.(*collect.Config)
	cases := collect.CasesOf(s.Plan)
	if !ok || cases == nil {
		return fail("the cases of %s are not known: what it depends on has not run", order.Stage)
	}

	if key, err := cfg.OrderKey(cases); err != nil || key != order.Key {
		return fail("the plan has changed since the jobs were submitted: apply it again")
	}

	all.LockDevices(&runtimes.Locks{Me: fileutil.Self(a.commandLine(), "", time.Now()), Allotted: true})
	events := &taskEvents{w: a, task: task}
	on := func(st *plan.Stage) *stage.RunContext {
		return &stage.RunContext{
			Address: st.Address(), Range: st.Instance.Range, Inputs: map[string]*stage.Dataset{}, Plan: st.Plan, Store: store,
			Events: events, RunDir: a.taskDir(order, task), OutDir: order.OutDir,
			PlanDir: p.Config.Dir, Options: order.Options, OnNode: true, Stop: stop,
		}
	}

	ctx := context.Background()
	for _, g := range p.Stages {
		if g.Instance.Kind.Class != stage.Guard || g.Config == nil {
			continue
		}
		out, err := g.Config.Run(ctx, on(g))
		switch {
		case err != nil:
			return fail("%s: %v", g.Address(), err)
		case out.Status != stage.StatusOK:
			return fail("%s: %s%s", g.Address(), out.Message, failureTexts(out.Checks))
		}
	}

	state, message := cfg.RunPart(ctx, on(s), &collect.Part{Task: task, Places: order.Shards[task.Shard].Places})
	if state == executors.Done && events.silent() {
		// Without an error, the logs of the workers are not needed.
		if err := all.Close(); err == nil {
			_ = os.RemoveAll(a.taskDir(order, task))
		}
	}

	return state, message
}

// failureTexts returns the messages of failed checks in one line, each shortened.
func failureTexts(checks []stage.CheckResult) string {
	text := ""
	for _, c := range checks {
		if c.Result == "fail" {
			text += fmt.Sprintf("; %s: %s", c.Name, textutil.Clip(strings.ReplaceAll(c.Message, "\n", " "), 300))
		}
	}
	return text
}

// taskDir creates and returns the folder for a task's logs.
func (a *app) taskDir(o *executors.Order, t *executors.Task) string {
	dir := o.TaskDir(t.Shard)
	_ = os.MkdirAll(dir, 0o755) // a later write reports the error
	return dir
}

// invocation returns the arguments with which tasks of executors make the same plan.
func (a *app) invocation(c planFlags, opts plan.Options) (executors.Invocation, error) {
	set := a.settings(c, opts)
	inv := executors.Invocation{Version: version, Path: c.Path, VarFiles: c.VarFile, OutDir: opts.OutDir, Vars: set.Vars,
		Environ: set.Environ}
	for _, kv := range c.Var {
		if set.Withholds(kv) { // sbatch passes the environment on
			name, _, _ := strings.Cut(kv, "=")
			inv.Lacks = append(inv.Lacks, strings.TrimSpace(name))
		}
	}

	var err error
	inv.WorkDir, err = os.Getwd()
	return inv, err
}

// taskSignals handles the signals of a task. Slurm sends USR1 before the time limit and TERM at the end
// of the job.
type taskSignals struct {
	stop, term context.Context    // end at the first signal, and at TERM
	drain      context.CancelFunc // stops measuring after the cases in flight
	got        chan os.Signal
	limit      atomic.Bool // USR1 arrived, TERM did not
}

func watchSignals() *taskSignals {
	s := &taskSignals{got: make(chan os.Signal, 4)}
	s.stop, s.drain = context.WithCancel(context.Background())
	term, end := context.WithCancel(context.Background())
	s.term = term
	signal.Notify(s.got, syscall.SIGUSR1, syscall.SIGTERM, os.Interrupt)
	go func() {
		for sig := range s.got {
			s.limit.Store(sig == syscall.SIGUSR1)
			if sig != syscall.SIGUSR1 {
				end()
			}
			s.drain()
		}
		end()
	}()

	return s
}

func (s *taskSignals) close() {
	signal.Stop(s.got)
	close(s.got)
}

// awaitEnd waits for TERM, which Slurm sends to a job that it requeues.
func (s *taskSignals) awaitEnd() {
	select {
	case <-s.term.Done():
	case <-time.After(30 * time.Second):
	}
}

// taskEvents prints events to the log of the job. It implements stage.Events. The coordinator emits the others.
type taskEvents struct {
	quietEvents
	w    *app
	task *executors.Task

	mu     sync.Mutex
	said   time.Time
	errors int
}

// Progress implements stage.Events.
func (e *taskEvents) Progress(address string, p stage.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.task.Update(false, func(s *executors.Status) { s.Measured, s.Failed = p.Done, p.Failed })
	if now := time.Now(); now.Sub(e.said) >= heartbeat {
		e.said = now
		e.line("%s: %d measured, %d failed", address, p.Done, p.Failed)
	}
}

// Message implements stage.Events.
func (e *taskEvents) Message(address, level, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if level == "debug" || level == stage.MessageStatus {
		return
	}
	if level == "warn" || level == "error" {
		e.errors++
		e.task.Update(false, func(s *executors.Status) { s.Note = text })
	}
	e.line("%s: %s: %s", address, level, text)
}

func (e *taskEvents) line(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(e.w.stdout, "%s %s\n", time.Now().Format(time.RFC3339), text)
}

// silent reports whether no warning or error was printed.
func (e *taskEvents) silent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.errors == 0
}

// dryRun prints the jobs and scripts that the collects of a plan would submit.
func (a *app) dryRun(p *plan.Plan, stateDir string) error {
	n := 0
	for _, s := range p.Stages {
		c, ok := s.Config.(*collect.Config)
		if !ok || !c.Elsewhere() || s.Plan == nil || s.Plan.Request == nil {
			continue
		}

		if n++; n > 1 {
			fmt.Fprintln(a.stdout)
		}

		fmt.Fprintf(a.stdout, "# %s\n# %s\n", s.Address(), s.Plan.Request.Text())
		arrays := s.Plan.Request.Arrays
		for i, array := range arrays {
			if len(arrays) > 1 {
				fmt.Fprintf(a.stdout, "%s# %s\n", strings.Repeat("\n", min(i, 1)), array.Text())
			}
			fmt.Fprint(a.stdout, c.Script(array, s.Address(), stateDir, p.Config.Dir))
		}
	}

	if n == 0 {
		fmt.Fprintln(a.stdout, "No stage would submit a job.")
	}

	return nil
}
