package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/stages"
)

type applyCmd struct {
	planFlags   `embed:""`
	selectFlags `embed:""`
	gateFiles   `embed:""`
	OutDir      string `help:"Where exports go." default:"out" placeholder:"DIR"`
	Parallelism int    `help:"CPU stages at once; 0: as many as cores." placeholder:"N"`
	FailFast    bool   `help:"Start nothing more after the first failure."`
	JSON        bool   `name:"json" help:"Print events as NDJSON."`
}

// Run plans, then runs what the plan says.
func (c *applyCmd) Run(a *app) error {
	all := stages.All()
	defer all.Close()
	opts := c.options()
	var saved *plan.Saved
	if plan.IsSaved(c.Path) {
		var err error
		if saved, err = plan.Open(c.Path); err != nil {
			return err
		}
		if len(c.Var)+len(c.VarFile) > 0 {
			return fmt.Errorf("%s is a saved plan and has its variables: give -var when planning", c.Path)
		}
		c.Path, c.Var, c.VarFile, opts = saved.Path, saved.Vars, saved.VarFiles, saved.Options
	}
	store, err := a.open(false)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, stop, cancel := interruptible()
	defer cancel()
	p, err := a.plan(ctx, c.planFlags, opts, all, store)
	if err != nil {
		return err
	}
	if saved != nil {
		if changed := saved.Changed(p); len(changed) > 0 {
			return fmt.Errorf("the saved plan is out of date: %s%s; plan again with -out", changed[0], more(len(changed)-1))
		}
	}
	outDir, err := absDir(c.OutDir)
	if err != nil {
		return err
	}
	guards, hopeless, err := guardsFirst(p, outDir)
	if err != nil {
		return err
	}
	if hopeless && !c.JSON {
		a.preflights(guards)
		fmt.Fprintf(a.stdout, "Apply: no stage can run behind a failed preflight; nothing was created; exit code %d.\n", run.ExitPreflight)
		a.code = run.ExitPreflight
		return c.gateFiles.write(a, &run.Result{Stages: guards}, false)
	}
	lock, err := store.Lock(checkpoint.LockInfo{Command: commandLine()})
	if err != nil {
		return err
	}
	defer lock.Release()
	res, err := c.apply(ctx, a, p, store, stop, guards, outDir)
	if err != nil {
		return err
	}
	a.code = res.ExitCode()
	return nil
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

func (c *applyCmd) apply(ctx context.Context, a *app, p *plan.Plan, store *checkpoint.Store, stop <-chan struct{}, guards []*run.StageResult, outDir string) (*run.Result, error) {
	done := map[string]*stage.Outcome{}
	for _, g := range guards {
		done[g.Address] = g.Outcome
	}
	r, err := store.NewRun()
	if err != nil {
		return nil, err
	}
	var view run.View
	switch {
	case c.JSON:
		view = &jsonView{w: a.stdout}
	case a.isTerminal(a.stdout):
		view = newBarView(a)
	default:
		view = newLineView(a)
	}
	log, closeLog, err := a.runLog(r.Dir)
	if err != nil {
		return nil, err
	}
	defer closeLog()
	res, err := run.Apply(ctx, p, run.Options{
		Run: r, OutDir: outDir, Parallelism: c.Parallelism, FailFast: c.FailFast, Log: log, Views: []run.View{view}, Stop: stop, Done: done,
	})
	if err != nil {
		return res, err
	}
	if err := c.gateFiles.write(a, res, c.JSON); err != nil {
		return res, err
	}
	return res, a.report(p.Config, res.Diags)
}

// interruptible turns the first Ctrl-C into closing stop and the second into
// cancelling the context.
func interruptible() (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n == 0 {
					fmt.Fprintln(os.Stderr, "\nStopping: what is in flight is finished and kept. Ctrl-C again stops at once.")
					close(stop)
				} else {
					cancel()
				}
			case <-ended:
				return
			}
		}
	}()
	var once sync.Once
	return ctx, stop, func() {
		once.Do(func() {
			signal.Stop(signals)
			close(ended)
			cancel()
		})
	}
}
