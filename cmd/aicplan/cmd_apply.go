package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/stages/runtimes"
)

type applyCmd struct {
	planFlags   `embed:""`
	selectFlags `embed:""`
	gateFiles   `embed:""`
	priceFlag   `embed:""`
	outFlag     `embed:""`
	AutoApprove bool          `help:"Do not ask on a terminal before measuring for long."`
	Grace       time.Duration `help:"Time for open cases after Ctrl-C; 0: no limit." default:"10s" placeholder:"TIME"`
	DryRun      bool          `help:"Print the scripts of the jobs, and submit and measure nothing."`
	Detach      bool          `help:"Return once jobs are submitted; the same command follows them later."`
	JSON        bool          `name:"json" help:"Print events as NDJSON, and mistakes of the plan as events."`
}

// askAfter is the estimated duration above which apply requests confirmation on a terminal.
const askAfter = 10 * time.Minute

// diagnosticEvent is a line of --json for a diagnostic of the plan.
type diagnosticEvent struct {
	Level      string          `json:"@level"`
	Message    string          `json:"@message"`
	Time       time.Time       `json:"@timestamp"`
	Type       string          `json:"type"`
	Diagnostic config.DiagJSON `json:"diagnostic"`
}

// levels maps the severity of a diagnostic to a log level.
var levels = map[string]string{"error": "error", "warning": "warn"}

// Run makes the plan and runs it.
func (c *applyCmd) Run(a *app) error {
	if c.JSON {
		a.diagnosed = func(diags []config.DiagJSON) error {
			enc := json.NewEncoder(a.stdout)
			enc.SetEscapeHTML(false)
			for _, d := range diags {
				if err := enc.Encode(diagnosticEvent{levels[d.Severity], d.Summary, time.Now().UTC(), "diagnostic",
					d}); err != nil {
					return err
				}
			}
			return nil
		}
	}

	opts := c.options()
	saved, err := c.openSaved(a)
	if err != nil {
		return err
	}

	if saved != nil {
		opts = saved.Options
	}

	opts.Price, opts.GPUs, opts.OutDir = c.Price, c.Gpus, c.OutDir
	if err := errors.Join(mayBecomeDir(opts.OutDir), c.gateFiles.check()); err != nil {
		return err
	}

	store, err := a.open(false)
	if err != nil {
		return err
	}

	ctx := context.Background()
	if !c.DryRun {
		ctx = runtimes.Reaching(ctx)
	}

	before, err := latestRun(store)
	if err != nil {
		return err
	}

	p, err := a.plan(ctx, c.planFlags, opts)
	if err != nil {
		return err
	}

	if c.DryRun {
		return a.dryRun(p, store.Dir)
	}

	inv, err := a.invocation(c.planFlags, opts)
	if err != nil {
		return err
	}

	inv.Detach = c.Detach
	a.stages().Invoked(inv)
	if saved != nil {
		if changed := saved.Changed(p); len(changed) > 0 {
			return fmt.Errorf("the saved plan is out of date: %s%s; plan again with --out",
				strings.Join(changed[:min(len(changed), 3)], "; "), more(len(changed)-3))
		}
	}

	guards, hopeless, err := guardsFirst(p)
	if err != nil {
		return err
	}

	if hopeless && !c.JSON {
		a.preflights(guards)
		fmt.Fprintf(a.stdout, "Apply: no stage can run behind a failed preflight; nothing was created; exit code %d.\n",
			run.ExitPreflight)
		a.code = run.ExitPreflight
		return c.gateFiles.write(a, p, &run.Applied{Stages: guards}, false)
	}

	if err := writable(p, opts.OutDir); err != nil {
		return err
	}

	if saved == nil && !c.AutoApprove && !c.JSON && a.isTerminal(a.stdout) && a.isTerminal(a.stdin) {
		if err := a.approve(plan.Summarize(p), askAfter); err != nil {
			return err
		}
	}

	lock, err := a.lockFor(store, func(lock *checkpoint.RunLock) error {
		if p, err = a.planAgain(ctx, p, before); err != nil {
			return err
		}
		return lock.Claim(p.Uses())
	})
	if err != nil {
		return err
	}

	defer lock.Release()

	a.endPlanning()
	a.outliveReader(c.JSON)
	ctx, stop, cancel := interruptible(c.Grace)
	defer cancel()
	a.stages().LockDevices(&runtimes.Locks{Me: fileutil.Self(a.commandLine(), "", time.Now()),
		Timeout: a.global.LockTimeout})
	res, err := c.apply(ctx, a, p, lock, stop, guards)
	if err != nil {
		return err
	}

	a.code = res.ExitCode()
	return nil
}

// latestRun returns the id of the latest run in the state folder, or "" if there is none.
func latestRun(store *checkpoint.Store) (string, error) {
	r, err := store.LatestRun()
	switch {
	case errors.Is(err, checkpoint.ErrMissing):
		return "", nil
	case err != nil:
		return "", err
	}
	return r.ID, nil
}

// planAgain makes the plan again if its basis has changed or is damaged. The caller has the lock, so no
// other process writes. before is the latest run at the time of the first plan.
func (a *app) planAgain(ctx context.Context, p *plan.Plan, before string) (*plan.Plan, error) {
	again := func() error {
		var diags hcl.Diagnostics
		p, diags = plan.Build(ctx, p.Config, p.Store, p.Options)
		return a.report(p.Config, diags)
	}

	now, err := latestRun(p.Store)
	if err != nil {
		return p, err
	}

	if now != before || p.Store.Stale() {
		p.Store.Forget()
		if err := again(); err != nil {
			return p, err
		}
	}

	if p.Damaged(ctx) > 0 {
		return p, again()
	}

	return p, nil
}

// openSaved opens a saved plan and takes over its settings. It returns nil if the path is not a saved
// plan.
func (c *applyCmd) openSaved(a *app) (*plan.Saved, error) {
	if !plan.IsSaved(c.Path) {
		return nil, nil
	}

	saved, err := plan.Open(c.Path)
	if err != nil {
		return nil, err
	}

	others := slices.DeleteFunc(slices.Clone(c.Var), saved.Withholds)
	if len(others)+len(c.VarFile) > 0 {
		return nil, fmt.Errorf("%s is a saved plan and has its variables: give --var when planning", c.Path)
	}

	if flag := c.given(); flag != "" {
		return nil, fmt.Errorf("%s is a saved plan and has its selection: give %s when planning", c.Path, flag)
	}

	c.Path, c.Var, c.VarFile = saved.Path, append(saved.Vars, c.Var...), saved.VarFiles
	a.environ = append(slices.DeleteFunc(slices.Clone(a.environ), func(kv string) bool {
		assignment, ours := strings.CutPrefix(kv, config.EnvPrefix)
		return ours && !saved.Withholds(assignment)
	}), saved.Environ...)

	return saved, nil
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

func (c *applyCmd) apply(ctx context.Context, a *app, p *plan.Plan, lock *checkpoint.RunLock,
	stop <-chan struct{}, guards []*run.StageResult) (*run.Applied, error) {
	done := map[string]*stage.Outcome{}
	for _, g := range guards {
		done[g.Address] = g.Outcome
	}

	r, err := p.Store.NewRun()
	if err != nil {
		return nil, err
	}

	log, closeLog, err := a.runLog(r.Dir)
	if err != nil {
		return nil, err
	}

	defer closeLog()
	opts := run.Options{Run: r, OutDir: p.Options.OutDir, Log: log, Stop: stop, Done: done, Lock: lock,
		Detach: c.Detach}
	switch {
	case c.JSON:
		opts.Events = a.stdout
	case a.isTerminal(a.stdout):
		opts.View = newBarView(a)
	default:
		opts.View = newLineView(a)
	}

	res, err := run.Apply(ctx, p, opts)
	if err != nil {
		return res, err
	}

	if err := c.gateFiles.write(a, p, res, c.JSON); err != nil {
		return res, err
	}

	return res, a.report(p.Config, res.Diags)
}
