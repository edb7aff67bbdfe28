package plantest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// Result is the outcome of one run.
type Result struct {
	File string
	Run  *Run
	// Failures is empty if the run passed.
	Failures hcl.Diagnostics
	// Sources are the files that Failures refer to.
	Sources map[string]*hcl.File
	Seconds float64
	// Summary is the plan that was checked, or nil if it has errors.
	Summary *plan.Summary
}

// Passed reports whether the run had no failures.
func (r *Result) Passed() bool { return len(r.Failures) == 0 }

// Run builds the plan of one run and checks the result. load contains the load options other than
// path and values. The store must be empty.
func (f *File) Run(ctx context.Context, r *Run, load config.Options, store *checkpoint.Store) *Result {
	start := time.Now()
	out := &Result{File: f.Path, Run: r}
	load.Path, load.Inline = r.path, r.inline
	load.Sources = map[string]*hcl.File{f.name: f.hcl}
	load.Given, load.Optional = r.given, r.shared
	cfg, diags := config.Load(load)
	var p *plan.Plan

	if !diags.HasErrors() {
		var more hcl.Diagnostics
		p, more = plan.Build(ctx, cfg, store, plan.Options{})
		diags = append(diags, more...)
	}

	diags = config.Merged(diags)
	out.Failures = r.judgeDiags(diags)
	code := run.ExitError
	if !diags.HasErrors() {
		sum := plan.Summarize(p)
		out.Summary = &sum
		code = run.ExitOK
		if sum.Work {
			code = run.ExitWork
		}

		out.Failures = append(out.Failures, r.judge(cfg, p, sum)...)
	} else if n := len(r.asserts) + len(r.expects); n > 0 && out.Passed() {
		out.Failures = append(out.Failures, errorAt(r.Range, "Not judged",
			"The plan has errors, so %s of this run cannot be judged. Test errors in a run of their own.",
			textutil.Counted(n, "assert and expect block"))...)
	}

	if want := r.body.ExitCode; want != nil && *want != code && (code != run.ExitError || out.Passed()) {
		out.Failures = append(out.Failures, errorAt(r.Range, "Other exit code",
			"plan --detailed-exitcode ends with %d; exit_code = %d is expected.", code, *want)...)
	}

	out.Sources = cfg.Files()
	out.Seconds = time.Since(start).Seconds()
	return out
}

// judgeDiags compares the diagnostics of a plan with the expected errors. It returns unexpected
// errors and one failure per missing expected error.
func (r *Run) judgeDiags(diags hcl.Diagnostics) hcl.Diagnostics {
	var out hcl.Diagnostics
	met := map[*expectedDiag]bool{}
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		expected := false
		for i := range r.errors {
			if r.errors[i].fits(d) {
				expected, met[&r.errors[i]] = true, true
			}
		}

		if !expected {
			out = append(out, d)
		}
	}

	for i := range r.errors {
		if e := &r.errors[i]; !met[e] {
			stage.AddError(&out, e.rng, "Expected error is missing", "%s", e.missed(diags))
		}
	}

	return out
}

// fits reports whether a diagnostic contains the expected text and has the expected position.
func (e *expectedDiag) fits(d *hcl.Diagnostic) bool {
	text := strings.Join(strings.Fields(d.Summary+": "+d.Detail), " ")
	if !strings.Contains(text, strings.Join(strings.Fields(e.Text), " ")) {
		return false
	}
	return e.At == "" || at(d) == e.At || strings.HasPrefix(at(d), e.At+":") || strings.HasSuffix(at(d), "/"+e.At) ||
		strings.Contains(at(d), "/"+e.At+":")
}

// at returns the position of a diagnostic as FILE:LINE.
func at(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", d.Subject.Filename, d.Subject.Start.Line)
}

// missed returns the message for an expected error that the plan does not have.
func (e *expectedDiag) missed(diags hcl.Diagnostics) string {
	text := fmt.Sprintf("No error of the plan has the text %q", e.Text)
	if e.At != "" {
		text += " at " + e.At
	}

	var are []string
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			are = append(are, fmt.Sprintf("%s: %s (%s)", d.Summary, textutil.Clip(textutil.OneLine(d.Detail), 160), at(d)))
		}
	}

	if len(are) == 0 {
		return text + ": it has none."
	}

	return text + ". It has: " + strings.Join(are, "; ") + "."
}

// judge evaluates the expect and assert blocks of a run.
func (r *Run) judge(cfg *config.Config, p *plan.Plan, sum plan.Summary) hcl.Diagnostics {
	var out hcl.Diagnostics
	for i := range r.expects {
		out = append(out, r.expects[i].judge(cfg, sum)...)
	}

	if len(r.asserts) == 0 {
		return out
	}

	names := map[string]cty.Value{"plan": planValue(sum), "output": cty.EmptyObjectVal}
	outputs, diags := cfg.Outputs()
	if diags.HasErrors() {
		return append(out, diags...)
	}

	values := map[string]cty.Value{}
	for _, o := range outputs {
		values[o.Name] = o.Value
	}

	if len(values) > 0 {
		names["output"] = cty.ObjectVal(values)
	}

	functions := caseFunctions(p)
	for _, a := range r.asserts {
		out = append(out, cfg.Judge(config.Check(a), names, functions)...)
	}

	return out
}

// judge compares one stage with an expect block.
func (e *expectation) judge(cfg *config.Config, sum plan.Summary) hcl.Diagnostics {
	if e.Exists != nil && !*e.Exists {
		for _, s := range sum.Stages {
			if plan.MatchAny([]string{e.address}, s.Address) {
				return errorAt(e.block.LabelRanges[0], "Unexpected stage",
					"The plan has %s, which is to be left out.", s.Address)
			}
		}
		return nil
	}

	in, err := cfg.Find(e.address)
	if err != nil {
		return errorAt(e.block.LabelRanges[0], "No such stage", "%s", err.Error()+".")
	}

	i := slices.IndexFunc(sum.Stages, func(s plan.StageSummary) bool { return s.Address == in.Address })
	return e.counts(&sum.Stages[i])
}

func (e *expectation) counts(s *plan.StageSummary) hcl.Diagnostics {
	var out hcl.Diagnostics
	fail := func(attribute, format string, args ...any) {
		stage.AddError(&out, e.block.Body.Attributes[attribute].SrcRange, "Other than expected",
			"%s", s.Address+" "+fmt.Sprintf(format, args...))
	}

	have := countsOf(s)
	for _, w := range []struct {
		attribute, what string
		want            *int64
	}{
		{"declared", "declares %s combinations", e.Declared}, {"cases", "has %s cases", e.Cases},
		{"rows", "has %s rows", e.Rows},
		{"collect", "has %s cases to collect", e.Collect},
	} {
		if w.want == nil {
			continue
		}
		n, ok := have[w.attribute]
		switch {
		case !ok:
			fail(w.attribute, "is %s, which has no count %s.", textutil.WithArticle(s.Kind), w.attribute)
		case n != *w.want:
			fail(w.attribute, w.what+", not %s.", textutil.Count(n), textutil.Count(*w.want))
		}
	}

	if e.Action != nil && *e.Action != string(s.Action) {
		fail("action", "has the action %q, not %q.", s.Action, *e.Action)
	}

	for _, name := range slices.Sorted(maps.Keys(e.Drops)) {
		n, ok := dropsBy(s)[name]
		switch {
		case !ok:
			fail("drops", "has no filter with the name or reason %q.%s", name,
				stage.DidYouMean(name, slices.Collect(maps.Keys(dropsBy(s)))))
		case n != int64(e.Drops[name]):
			fail("drops", "drops %s by %q, not %s.", textutil.Count(n), name, textutil.Count(e.Drops[name]))
		}
	}

	return out
}

// countsOf returns the counts of a stage, keyed by the attribute of expect that checks them.
func countsOf(s *plan.StageSummary) map[string]int64 {
	out := map[string]int64{}
	if g := s.Grid; g != nil {
		out["declared"], out["cases"], out["rows"], out["duplicates"] =
			g.Declared, int64(g.Cases), int64(g.Rows), int64(g.Duplicates)
		out["dropped"] = 0
		for _, f := range g.Filters {
			out["dropped"] += f.Dropped
		}
	}

	if c := s.Cases; c != nil {
		out["cases"], out["rows"], out["collect"], out["unsupported"] =
			int64(c.Planned), int64(c.Rows), int64(c.Collect), int64(c.Unsupported)
	}

	return out
}

// dropsBy returns the number of dropped combinations by filter name and by reason.
func dropsBy(s *plan.StageSummary) map[string]int64 {
	out := map[string]int64{}
	if s.Grid == nil {
		return out
	}

	for _, f := range s.Grid.Filters {
		out[f.Name] += f.Dropped
		if f.Reason != "" && f.Reason != f.Name {
			out[f.Reason] += f.Dropped
		}
	}

	return out
}
