package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// opName is the op as the worker knows it.
func (c *Config) opName(gridOp string) string {
	if c.Op != "" {
		return c.Op
	}
	return gridOp
}

// keyExtra is the part of the stage's key other than config and inputs.
type keyExtra struct {
	Environment map[string]string `json:"environment"`
	// Source is the code of a python op, Python its interpreter; see Context.
	Source    string            `json:"source,omitempty"`
	Packages  map[string]string `json:"packages,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	Files     string            `json:"files,omitempty"`
	Python    string            `json:"python,omitempty"`
	Selection any               `json:"selection,omitempty"`
	// Instrument is the version of the measuring code; see Context.
	Instrument int `json:"instrument,omitempty"`
	// Reads identify what the op reads of other stages.
	Reads []string `json:"reads,omitempty"`
}

// KeyExtra implements stage.Keyer: the environment as far as it is known
// without a worker, and the selection of cases.
func (c *Config) KeyExtra(ctx context.Context, pc *stage.PlanContext) (any, hcl.Diagnostics) {
	k := keyExtra{Instrument: c.about().Instrument}
	if c.bind != nil {
		with, err := c.kind().Bind(c.bind, pc.PlanDir)
		if err != nil {
			return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Cannot read the kernel", Detail: err.Error(), Subject: pc.Range.Ptr()}}
		}
		c.bind = with
	}
	known, err := c.resolve(ctx, pc)
	if err != nil {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Cannot read the files", Detail: err.Error() + ".", Subject: pc.Range.Ptr()}}
	}
	if known {
		k.Reads = c.readIDs
	}
	k.Files = c.kindFilesID
	cases, op := grids.CasesOf(pc.Upstream(c.grid)), ""
	if cases != nil {
		op = cases.Spec().Op
	}
	env := c.met.Load()
	if env == nil { // other stages may have met other workers since
		env, _ = c.expect(ctx, pc.Store, op, pc.PlanDir)
	}
	if env != nil {
		c.assumed.Store(env)
		k.Environment = map[string]string{}
		for _, name := range c.Environment {
			k.Environment[name] = env.Field(name)
		}
		if c.about().Interpreted {
			k.Python = minorVersion(env.Env["python"])
		}
	}
	if cases != nil && env != nil {
		if code := c.codeIn(op, env); code != nil {
			k.Source, k.Packages = code.String(), c.packagesIn(code)
		}
		if c.about().UsesGPUs {
			k.Variables = env.Variables
		}
	}
	if cases != nil && truncated(cases.Len(), pc.Options) {
		k.Selection = selectionKey(pc.Options)
	}
	return k, nil
}

func selectionKey(o stage.Options) any {
	key := map[string]any{"limit": o.Limit, "smoke": o.Smoke}
	if o.Smoke {
		key["seed"] = o.Seed
	}
	return key
}

// planned is what Plan hands to Run.
type planned struct {
	cases  *grid.Cases
	info   stage.Info
	config *Config // for Measurement
}

// Plan implements stage.Planner: how many cases are there already and how many
// are to be measured.
func (c *Config) Plan(ctx context.Context, pc *stage.PlanContext) (*stage.Plan, hcl.Diagnostics) {
	up := pc.Upstream(c.grid)
	cases := grids.CasesOf(up)
	if cases == nil {
		return &stage.Plan{Action: stage.ActionUnknown, Reason: "the cases of " + c.grid.Address + " are not known yet"}, nil
	}
	fail := func(summary string, err error) (*stage.Plan, hcl.Diagnostics) {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: err.Error() + ".", Subject: pc.Range.Ptr()}}
	}
	if _, err := columnsOf(cases, c.limits.groupBy, "breaker.group_by"); err != nil {
		return fail("Unknown column", err)
	}
	if _, err := columnsOf(cases, c.Weights, "weights"); err != nil {
		return fail("Unknown column", err)
	}
	if err := c.unmeasurable(cases, pc.PlanDir); err != nil {
		return fail("Nothing can measure this", err)
	}
	strange, why := c.strange(cases)
	if strange > 0 && strange == cases.Len() {
		return fail("Nothing can measure this", errors.New(why))
	}
	counts := fresh(cases, pc.Options)
	var todo *job // knows which cases are open; nil if all of them are
	if len(c.unsupported) > 0 {
		j, err := newJob(cases, c.schema(up.Data.Info.Perf), nil, pc.Options)
		if err != nil {
			return fail("Unknown column", err)
		}
		if err := j.bar(c.unsupported); err != nil {
			return fail("Unknown column", err)
		}
		counts, todo = j.counts(), j
	}
	var seen *job // the open cases, where the executor asks which they are
	var jobs *dealt
	p := &stage.Plan{Action: stage.ActionCollect, Private: &planned{cases: cases, info: up.Data.Info, config: c}}
	if cases.Len() == 0 {
		p.Warnings = append(p.Warnings, c.grid.Address+" has no case, so there is nothing to measure; plan -v shows what its filters drop")
	}
	if strange > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d of %d cases are going to fail: %s; leave them out with a filter", strange, cases.Len(), why))
	}
	env, assumed := c.expect(ctx, pc.Store, cases.Spec().Op, pc.PlanDir)
	if u := c.pools.Unanswered(c.runtime); u != nil {
		p.Warnings = append(p.Warnings, u.What+"; "+u.Fix)
	}
	reason := c.runtime.Address + " has not been seen yet as it is now, so nothing can be reused before it runs"
	otherPython := ""
	if env == nil {
		if why := runtimes.Refused(pc.Store, c.runtime); why != "" {
			reason = why
		}
		if python := runtimes.SeenWith(pc.Store, c.runtime); python != "" {
			otherPython = fmt.Sprintf("; the state folder has seen it with python = %q, and a plan that names the same finds its rows also where that is not", python)
			reason += otherPython
		}
	}
	readsKnown, err := c.resolve(ctx, pc)
	if err != nil {
		return fail("Cannot read the files", err)
	}
	if !readsKnown {
		reason = "what it reads is written first"
	}
	if env != nil && readsKnown {
		journal, jc, err := c.journal(pc.Store, cases.Spec(), env)
		if err != nil {
			return fail("The case journal cannot be read", err)
		}
		if journal.Len() > 0 {
			j, err := newJob(cases, c.schema(up.Data.Info.Perf), c.limits.groupBy, pc.Options)
			if err != nil {
				return fail("Unknown column", err)
			}
			if err := j.bar(c.unsupported); err != nil {
				return fail("Unknown column", err)
			}
			if err := j.reuse(journal, pc.Options, c.limits.tripAfter); err != nil {
				return fail("The case journal cannot be read", err)
			}
			counts, seen, todo = j.counts(), j, j
		}
		if reason, err = reasonOf(pc.Store, counts, jc, journal); err != nil {
			return fail("The case journal cannot be read", err)
		}
	}
	if counts.Collect > 0 && c.Elsewhere() {
		if seen == nil && c.dealsByCase() {
			var err error
			if seen, err = newJob(cases, c.schema(up.Data.Info.Perf), nil, pc.Options); err == nil {
				err = seen.bar(c.unsupported)
			}
			if err != nil {
				return fail("Unknown column", err)
			}
		}
		var err error
		if jobs, err = c.deal(seen, counts.Collect); err != nil {
			return fail("Unknown size of a job", err)
		}
		p.Request = c.place.Request(jobs.jobs)
		p.Request.TaskCases = jobs.largest
	} else if counts.Collect > 0 {
		if why := c.pools.Absent(ctx, c.runtime); why != nil {
			p.Action, p.Reason, p.Cases = stage.ActionNeeds, "needs "+c.runtime.Address+": "+why.What, &counts
			p.Notes = append(p.Notes, why.Fix)
			p.Reason += otherPython
			if err := c.estimated(pc, cases, todo, env, p); err != nil {
				return fail("The case journal cannot be read", err)
			}
			return p, nil
		}
		if len(c.runtime.Launcher) == 0 {
			if problem := c.kind().Problem(c.runtime, c.blocks); problem != "" {
				p.Warnings = append(p.Warnings, problem)
			}
		}
	}
	if assumed != "" {
		reason += " (assuming " + assumed + ")"
	}
	p.Reason, p.Cases = reason, &counts
	if counts.Collect > 0 {
		if err := c.estimated(pc, cases, todo, env, p); err != nil {
			return fail("The case journal cannot be read", err)
		}
		if jobs != nil {
			c.timed(jobs, &counts, c.workers(env), p)
		}
	}
	if counts.Unsupported > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d cases have no kernel on this device and are not tried: %s", counts.Unsupported, c.unsupportedText()))
	}
	if counts.Hold > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d cases failed before, or stand behind a breaker, and are not tried again; --retry failed tries them, --retry tripped those of groups that never worked", counts.Hold))
	}
	return p, nil
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

// reasonOf says in one line how much is measured and, if nothing is, how the conditions
// differ from those of the most similar measurements.
func reasonOf(store *checkpoint.Store, counts stage.CaseCounts, jc checkpoint.Context, journal *checkpoint.Journal) (string, error) {
	switch {
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
	if len(why) > 3 {
		why = append(slices.Clone(why[:3]), fmt.Sprintf("and %d more", len(why)-3))
	}
	return "measured before under other conditions: " + strings.Join(why, "; "), nil
}

// inWords is a difference of two contexts without the names that only journals
// have.
func inWords(line string) string {
	if _, now, ok := strings.Cut(line, "extra.source "); ok {
		if _, after, changed := strings.Cut(now, " -> "); changed {
			now = after
		}
		file, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(now, "added "), `("`), " ")
		return "the code of " + file + ", or what it imports, changed"
	}
	if versions, ok := strings.CutPrefix(line, "extra."+instrumentWord+" "); ok {
		return "another version of the measuring code: " + versions
	}
	if strings.HasPrefix(line, "extra."+readsWord+" ") {
		return "what it reads changed"
	}
	if strings.HasPrefix(line, "extra.files ") {
		return "a file changed that the load or the server's command names"
	}
	return strings.TrimPrefix(line, "extra.")
}
