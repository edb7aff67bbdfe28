package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// planning is one call of Plan.
type planning struct {
	*Config
	pc      *stage.PlanContext
	up      *stage.Plan // of the grid
	cases   *grid.Cases
	plan    *stage.Plan
	counts  stage.CaseCounts
	env     *runtimes.Environment // nil if it is unknown
	assumed string                // describes env if it was seen in an earlier run
	known   bool                  // env and what the op reads are known
	job     *job
	atOnce  int       // cases that are measured at once
	jobs    *jobSplit // of an executor
	reason  string
	python  string // remark on the interpreter that the runtime was seen with
	wrong   string // summary of the error of a step
}

// Plan implements stage.Planner. It counts the cases that are measured already and those to be measured.
func (c *Config) Plan(ctx context.Context, pc *stage.PlanContext) (*stage.Plan, hcl.Diagnostics) {
	up := pc.Upstream(c.grid)
	cases := grids.CasesOf(up)
	if cases == nil {
		return &stage.Plan{Action: stage.ActionUnknown,
			Reason: "the cases of " + c.grid.Address + " are not known yet"}, nil
	}

	p := &planning{Config: c, pc: pc, up: up, cases: cases,
		plan: &stage.Plan{Action: stage.ActionCollect,
			Private: &Measurement{Cases: cases, Runtime: c.runtime, info: up.Data.Info, config: c}}}

	for _, step := range []func(context.Context) error{p.check, p.expectation, p.reuse, p.locate, p.describe} {
		if err := step(ctx); err != nil {
			return nil, stage.ErrorAt(pc.Range, cmp.Or(p.wrong, "The case journal cannot be read"), "%v.", err)
		}
	}

	p.notes()
	return p.plan, nil
}

// failed sets the summary of an error and returns it.
func (p *planning) failed(summary string, err error) error {
	p.wrong = summary
	return err
}

// check verifies the columns that the block names, and that the runtime can measure the cases.
func (p *planning) check(context.Context) error {
	if _, err := columnsOf(p.cases, p.Weights, "weights"); err != nil {
		return p.failed("Unknown column", err)
	}
	if err := p.unmeasurable(p.cases, p.pc.PlanDir); err != nil {
		return p.failed("Nothing can measure this", err)
	}

	invalid, why := p.invalidCases(p.cases, p.pc.PlanDir)
	if invalid > 0 && invalid == p.cases.Len() {
		return p.failed("Nothing can measure this", errors.New(why))
	}

	if p.cases.Len() == 0 {
		p.warn("%s has no case, so there is nothing to measure; plan -v shows what its filters drop", p.grid.Address)
	}
	if invalid > 0 {
		p.warn("%d of %d cases are going to fail: %s; leave them out with a filter", invalid, p.cases.Len(), why)
	}

	var err error
	if p.job, err = p.newJob(MeasurementOf(p.plan), p.pc.Options); err != nil {
		return p.failed("Unknown column", err)
	}
	p.counts = p.job.counts()
	if n := p.cases.Len() - p.counts.Planned - p.counts.LeftOut; n > 0 {
		p.warn("%d of %d cases have no point of their sweep, so they are not measured; check the filters of the sweep", n,
			p.cases.Len())
	}
	return nil
}

// expectation determines the environment and the files that the rows depend on. It sets reason if one of them is
// not known.
func (p *planning) expectation(ctx context.Context) error {
	p.env, p.assumed = p.expect(ctx, p.pc.Store, p.pc.Address, p.pc.PlanDir, p.cases)
	if u := p.pools.Unanswered(p.runtime); u != nil {
		p.warn("%s; %s", u.What, u.Fix)
	}

	if p.env == nil {
		p.reason, p.python = runtimes.Unknown(p.pc.Store, p.runtime)
		p.reason += p.python
	}

	known, err := p.resolve(ctx, p.pc)
	if err != nil {
		return p.failed("Cannot read the files", err)
	}
	if p.known = known && p.env != nil; !known {
		p.reason = "what it reads is written first"
	}
	return nil
}

// reuse compares the cases with the journal of the expected environment.
func (p *planning) reuse(context.Context) error {
	if !p.known {
		return nil
	}

	journal, jc, err := p.journal(p.pc.Store, p.cases.Spec, p.env)
	if err != nil {
		return err
	}

	if journal.Len() > 0 {
		if err := p.job.reuse(journal, p.pc.Options, p.limits.TripAfter); err != nil {
			return err
		}
		p.counts = p.job.counts()
	}

	p.reason, err = reasonOf(p.pc.Store, p.counts, jc, journal)
	return err
}

// locate plans the jobs of an executor, or verifies that this machine has what the runtime needs.
func (p *planning) locate(ctx context.Context) error {
	switch {
	case p.counts.Collect == 0:
		return nil
	case p.Elsewhere():
		return p.deals()
	}

	if why := p.pools.Absent(ctx, p.runtime); why != nil {
		p.plan.Action, p.plan.Notes = stage.ActionNeeds, append(p.plan.Notes, why.Fix)
		p.reason, p.assumed = "needs "+p.runtime.Address+": "+why.What+p.python, ""
		return nil
	}

	if len(p.runtime.Launcher) == 0 && p.kind().Problem != nil {
		if problem := p.kind().Problem(p.runtime, p.blocks); problem != "" {
			p.warn("%s", problem)
		}
	}
	return nil
}

// deals plans the jobs of an executor.
func (p *planning) deals() error {
	var err error
	if p.jobs, err = p.splitJobs(p.job, p.counts.Collect); err != nil {
		return p.failed("Unknown size of a job", err)
	}
	p.plan.Request = p.place.Request(p.jobs.jobs)
	p.plan.Request.TaskCases = p.jobs.largest
	return nil
}

// describe sets the reason and the counts of the plan, with how long the open cases are going to take.
func (p *planning) describe(context.Context) error {
	if p.assumed != "" {
		p.reason += " (assuming " + p.assumed + ")"
	}

	p.plan.Reason, p.plan.Cases = p.reason, &p.counts
	if p.counts.Collect == 0 {
		return nil
	}

	if err := p.estimate(); err != nil {
		return err
	}
	if p.jobs != nil {
		p.timed()
	}
	return nil
}

// notes explains the cases that are not tried.
func (p *planning) notes() {
	if p.plan.Action == stage.ActionNeeds {
		return
	}
	if p.counts.Unsupported > 0 {
		p.plan.Notes = append(p.plan.Notes, fmt.Sprintf("%d cases have no kernel on this device and are not tried: %s",
			p.counts.Unsupported, p.unsupportedText()))
	}
	if p.counts.Hold > 0 {
		p.plan.Notes = append(
			p.plan.Notes,
			fmt.Sprintf(
				"%d cases failed before, or their group is tripped, and are not tried again; --retry failed tries them, --retry "+
					"tripped those of groups that never worked",
				p.counts.Hold,
			),
		)
	}
}

func (p *planning) warn(format string, args ...any) {
	p.plan.Warnings = append(p.plan.Warnings, fmt.Sprintf(format, args...))
}

// unsupportedText are the reasons of the cases without a kernel.
func (c *Config) unsupportedText() string {
	var all []string
	for _, u := range c.unsupported {
		if !slices.Contains(all, u.reason) {
			all = append(all, u.reason)
		}
	}
	return strings.Join(all, "; ")
}

// reasonOf returns in one line how much is measured and, if nothing is, how the conditions
// differ from those of the most similar measurements.
func reasonOf(
	store *checkpoint.Store,
	counts stage.CaseCounts,
	jc checkpoint.Context,
	journal *checkpoint.Journal,
) (string, error) {
	switch {
	case counts.Collect == 0 && counts.Reuse > 0 && counts.Planned == 1:
		return "the case is measured already", nil
	case counts.Collect == 0 && counts.Reuse > 0:
		return fmt.Sprintf("all %d cases are measured already", counts.Reuse+counts.Hold), nil
	case counts.Reuse > 0:
		return fmt.Sprintf("%d of %d cases are measured already", counts.Reuse, counts.Planned), nil
	case journal.Len() > 0:
		return "none of these cases is measured yet", nil
	}
	near, why, err := store.Nearest(jc)
	if err != nil {
		return "", err
	}
	if near == nil {
		return "nothing is there yet", nil
	}

	for i, line := range why {
		why[i] = inWords(line)
	}
	return "measured before under other conditions: " + textutil.First(why, 3, "; "), nil
}

// inWords returns a difference of two contexts without the names that only journals have.
func inWords(line string) string {
	name, change, _ := strings.Cut(strings.TrimPrefix(line, "extra."), " ")
	switch {
	case line == name+" "+change: // not a field of extra
	case name == "source":
		if _, after, changed := strings.Cut(change, " -> "); changed {
			change = after
		}
		verb := "changed"
		if was, removed := strings.CutPrefix(change, "removed (was "); removed {
			change, verb = was, "is not compared any more"
		}
		file, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(change, "added "), `("`), " ")
		return "the code of " + file + ", or what it imports, " + verb
	case name == instrumentWord:
		return "another version of the measuring code: " + change
	case name == readsWord:
		return "what it reads changed"
	case name == "files":
		return "a file changed that the load or the server's command names"
	}
	return name + " " + change
}

// opName is the op as the worker knows it.
func (c *Config) opName(gridOp string) string {
	if c.Op != "" {
		return c.Op
	}
	return gridOp
}

// KeyExtra implements stage.Keyer: the environment as far as it is known
// without a worker, and the selection of cases.
func (c *Config) KeyExtra(ctx context.Context, pc *stage.PlanContext) (any, hcl.Diagnostics) {
	if bind, ok := c.bind.(map[string]any); ok && c.kind().Bind != nil {
		var err error
		if c.bind, err = c.kind().Bind(bind, pc.PlanDir); err != nil {
			return nil, stage.ErrorAt(pc.Range, "Cannot read the kernel", "%v.", err)
		}
	}
	if _, err := c.resolve(ctx, pc); err != nil {
		return nil, stage.ErrorAt(pc.Range, "Cannot read the files", "%v.", err)
	}

	k := map[string]any{}
	cases, spec := grids.CasesOf(pc.Upstream(c.grid)), &grid.Spec{}
	if cases != nil {
		spec = cases.Spec
	}
	env := c.measuredIn.Load()
	if env == nil { // other stages may have met other workers since
		env, _ = c.expect(ctx, pc.Store, pc.Address, pc.PlanDir, cases)
	}
	if env == nil {
		env = &runtimes.Environment{}
	} else {
		c.assumed.Store(env)
		k["environment"] = map[string]string{"framework": env.Framework, "version": env.Version, "device": env.Device}
	}

	all := c.Context(spec, env).Extra // the rest of it is in the block
	for _, name := range []string{"source", "packages", "variables", "files", "python", instrumentWord, readsWord} {
		if v, ok := all[name]; ok {
			k[name] = v
		}
	}
	if cases != nil && truncated(cases.Len(), pc.Options) {
		chosen := map[string]any{"limit": pc.Options.Limit, "smoke": pc.Options.Smoke}
		if pc.Options.Smoke {
			chosen["seed"] = pc.Options.Seed
		}
		k["selection"] = chosen
	}
	return k, nil
}
