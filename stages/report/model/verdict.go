package model

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

// verdict is the report in one word, worst first.
func (r *Report) verdict() Verdict {
	ended := map[stage.Status][]string{} // addresses
	for _, s := range r.Stages {
		ended[s.Status] = append(ended[s.Status], s.Address)
	}

	for _, x := range []struct {
		status          stage.Status
		word, one, many string
	}{
		{stage.StatusFailed, "failed", "The stage %s failed.", "%d stages failed."},
		{stage.StatusPreflight, "preflight failed", "%s did not let anything be measured.",
			"%d preflights did not let anything be measured."},
		{
			stage.StatusGateFailed, "gate failed",
			"%s did not let its data through.", "%d gates did not let their data through.",
		},
	} {
		if of := ended[x.status]; len(of) == 1 {
			return Verdict{Bad, x.word, fmt.Sprintf(x.one, of[0])}
		} else if len(of) > 1 {
			return Verdict{Bad, x.word, fmt.Sprintf(x.many, len(of))}
		}
	}

	c := results.Count(r.Gates)
	needs := ended[stage.StatusNeeds]
	switch {
	case r.Run.Unfinished:
		return Verdict{Warn, "unfinished", "The run goes on, or was killed; the report has what had ended."}
	case len(ended[stage.StatusInterrupted]) > 0:
		return Verdict{Warn, "interrupted", "The run was interrupted; the same command continues it."}
	case r.Run.Partial != "":
		return Verdict{Warn, "sample", "A " + r.Run.Partial + " run: a sample of the cases, not the data."}
	case len(needs) > 0:
		return Verdict{Warn, "partial", "A runtime that was not here is needed by " + List(needs, 4) + "."}
	case len(ended[stage.StatusPartial]) > 0,
		slices.ContainsFunc(r.Tables, func(t *Table) bool { return t.Partial != "" }):
		return Verdict{Warn, "partial", "Some of the planned data is missing."}
	case len(r.Tables) == 0:
		return Verdict{Warn, "no data", "The report has no table to speak of."}
	case c.Failed > 0:
		return Verdict{Bad, "check failed", textutil.Counted(c.Failed, "check") + " failed."}
	case r.farFromReference() != "":
		return Verdict{Bad, "differs from the reference", r.farFromReference()}
	case !r.judgedAtAll():
		return Verdict{Warn, "not judged", "No gate judged the data, so nothing can stop this data."}
	case r.stoppers() == 0 && c.Warned > 0:
		return Verdict{Warn, "passed, with warnings",
			fmt.Sprintf("Nothing can stop this data: its checks only warn; %s.", textutil.Counted(c.Warned, "warning"))}
	case r.stoppers() == 0:
		return Verdict{Warn, "passed", "Nothing can stop this data: its checks only warn, and none does."}
	case c.Warned > 0:
		return Verdict{Warn, "passed, with warnings",
			fmt.Sprintf("Every check that can stop the data passed; %s.", textutil.Counted(c.Warned, "warning"))}
	}

	if c.Passed == 1 {
		return Verdict{Good, "passed", "The only check passed."}
	}

	return Verdict{Good, "passed", fmt.Sprintf("All %d checks passed.", c.Passed)}
}

// farTimes is from which ratio to its reference on a table cannot pass: other units, a sum of several
// executions, or another device are more likely than a difference between versions.
const farTimes = 2

// farFromReference describes the first table whose median is farTimes apart from its reference, "" if there
// is none.
func (r *Report) farFromReference() string {
	for _, t := range r.Tables {
		if t.Reference == nil || t.Reference.Ratio == nil {
			continue
		}
		if p50 := t.Reference.Ratio.P50; p50 > farTimes || p50 < 1.0/farTimes {
			return fmt.Sprintf("%s has %.4g times the values of its reference (median of %s).", t.Address, p50,
				textutil.Counted(t.Reference.Common, "common row"))
		}
	}
	return ""
}

func (r *Report) classOf(address string) stage.Class {
	for _, s := range r.Stages {
		if s.Address == address {
			return s.class
		}
	}
	return ""
}

// judgedAtAll reports whether a check of the data had a result.
func (r *Report) judgedAtAll() bool {
	return slices.ContainsFunc(r.Gates, func(g results.Group) bool {
		return r.classOf(g.Address).Judges() && slices.ContainsFunc(g.Checks,
			func(c stage.CheckResult) bool { return c.Result != "skip" })
	})
}

// stoppers counts the checks of the data that came to a result and could have
// stopped it.
func (r *Report) stoppers() int {
	n := 0
	for _, g := range r.Gates {
		if !r.classOf(g.Address).CanStop() {
			continue
		}
		for _, c := range g.Checks {
			if c.Severity == "fail" && c.Result != "skip" {
				n++
			}
		}
	}

	return n
}

// totals of all tables.
type totals struct {
	Rows, Planned, Covered, Failed, Skipped int
	Filtered, Declared                      int64
}

func (r *Report) totals() totals {
	var t totals
	for _, x := range r.Tables {
		t.Rows += x.Rows
		t.Planned += x.Planned
		t.Covered += x.Covered
		t.Failed += x.Failed
		t.Skipped += x.Skipped
	}

	for _, w := range r.Waterfalls {
		t.Declared += w.Declared
		t.Filtered += w.Filtered()
	}

	return t
}

// Coverage is the share of planned cases that have a row.
func (t totals) Coverage() float64 { return float64(t.Covered) / float64(t.Planned) }

// figures are the numbers at the top.
func (r *Report) figures() []Figure {
	t := r.totals()
	rows := Figure{Name: "rows", Value: textutil.Count(t.Rows),
		Note: "in " + textutil.Counted(len(r.Tables), "table")}

	coverage := Figure{Name: "coverage", Value: "-", Note: "nothing was planned here"}
	if t.Planned > 0 {
		coverage.Value = Percent(t.Coverage())
		coverage.Note = fmt.Sprintf("%s of %s cases", textutil.Count(t.Covered), textutil.Count(t.Planned))
		if coverage.Level = Good; t.Covered < t.Planned {
			coverage.Level = Warn
		}
	}

	c := results.Count(r.Gates)
	checks := Figure{Name: "checks", Value: fmt.Sprintf("%d/%d", c.Passed, c.Passed+c.Failed+c.Warned),
		Level: Good, Note: "pass"}
	switch {
	case c.Failed > 0:
		checks.Level, checks.Note = Bad, fmt.Sprintf("pass, %d failed", c.Failed)
		if c.Warned > 0 {
			checks.Note += ", " + textutil.Counted(c.Warned, "warning")
		}
	case c.Warned > 0:
		checks.Level, checks.Note = Warn, "pass, "+textutil.Counted(c.Warned, "warning")
	case c.Passed == 0:
		checks.Level, checks.Value, checks.Note = Warn, "-", "no gate"
	}

	failed := Figure{Name: "failed cases", Value: textutil.Count(t.Failed), Level: Good, Note: "none"}
	if t.Failed > 0 {
		failed.Level, failed.Note = Warn, "in "+textutil.Counted(len(r.Failures), "group")
	}

	out := []Figure{rows, coverage, checks, failed}
	if t.Skipped > 0 || t.Filtered > 0 {
		out = append(out, Figure{Name: "left out", Value: textutil.Count(int64(t.Skipped) + t.Filtered),
			Note: "each with its reason"})
	}

	if r.Run.Seconds > 0 {
		out = append(out, Figure{Name: "run time", Value: Duration(r.Run.Seconds)})
	}

	return out
}

//go:embed glance.txt
var glanceText string

// glance sums the release up in sentences that the tables bear out: the lines of a template.
func (r *Report) glance() []string {
	var devices, versions []string
	for _, n := range r.Nodes {
		devices = addWord(devices, n.Device)
		versions = addWord(versions, strings.TrimSpace(n.Framework+" "+n.Version))
	}

	var b strings.Builder
	err := textutil.Fill(&b, glanceText, struct {
		*Report
		Totals            totals
		Checks            results.Counts
		Devices, Versions []string
	}{r, r.totals(), results.Count(r.Gates), devices, versions},
		template.FuncMap{"percent": Percent, "list": List})
	if err != nil {
		panic("report: glance.txt: " + err.Error())
	}
	return slices.Collect(strings.FieldsFuncSeq(b.String(), func(c rune) bool { return c == '\n' }))
}

// risks lists what follows from the data and a reader should know first.
func (r *Report) risks() {
	add := func(level, format string, args ...any) {
		r.Risks = append(r.Risks, Risk{Level: level, Text: fmt.Sprintf(format, args...)})
	}
	if r.Run.Unfinished {
		add(Warn, "the run had not ended when this was written: later cases and stages are missing")
	}

	for _, s := range r.Stages {
		switch s.Status {
		case stage.StatusFailed, stage.StatusPreflight, stage.StatusGateFailed:
			add(Bad, "%s: %s%s", s.Address, Words(s.Status), dash(s.Message))
		case stage.StatusNeeds, stage.StatusInterrupted:
			add(Warn, "%s: %s%s", s.Address, Words(s.Status), dash(s.Message))
		}
	}

	var unjudged, imported []string
	for _, t := range r.Tables {
		if t.Partial != "" {
			add(Bad, "%s is partial: %s", t.Name, t.Partial)
		}

		if t.Covered < t.Planned {
			add(Warn, "%s covers %s of its planned cases; %s have no row", t.Name,
				Percent(float64(t.Covered)/float64(t.Planned)), textutil.Count(t.Planned-t.Covered))
		}

		if t.Gate == nil {
			unjudged = append(unjudged, t.Name)
		}

		if t.Noise != nil && t.Noise.P95 > noisy {
			add(Warn, "%s is noisy: 5 %% of its rows have a standard deviation above %s of their mean", t.Name,
				Percent(t.Noise.P95))
		}

		if t.Throttled > 0 {
			add(Warn, "%s of %s's rows were measured while the driver lowered the clock", Percent(t.Throttled), t.Name)
		}

		if t.Clock != nil && t.Clock.P5 < 0.97*t.Clock.P95 {
			add(Warn, "the SM clock moved while %s was measured: %.0f to %.0f MHz", t.Name, t.Clock.P5, t.Clock.P95)
		}

		if t.Imported {
			imported = append(imported, t.Name)
		}
	}

	for _, g := range r.Gates {
		if slices.ContainsFunc(r.Tables, func(t *Table) bool {
			return t.Gate != nil &&
				slices.Contains(t.Gate.addresses, g.Address)
		}) {
			addSkipped(add, g)
		}
	}

	if len(unjudged) > 0 {
		add(Warn, "no gate judged %s", List(unjudged, 12))
	}

	if len(imported) > 0 {
		add(Warn, "imported, not measured here: %s", List(imported, 12))
	}

	if n := TotalFailures(r.Failures); n > 0 {
		g := r.Failures[0]
		add(Warn, "%s failed; the largest group: %s x %s", textutil.Counted(n, "case"), textutil.Count(g.Count),
			g.Example.Message)
	}

	mixed := map[string][]string{}
	for _, n := range r.Nodes {
		mixed["host"], mixed["device"] = addWord(mixed["host"], n.Host), addWord(mixed["device"], n.Device)
	}

	for _, what := range []string{"host", "device"} {
		if len(mixed[what]) > 1 {
			add(Warn, "the tables come from more than one %s: %s", what, List(mixed[what], 4))
		}
	}
}

// addSkipped lists the checks of a gate that could not be judged.
func addSkipped(add func(level, format string, args ...any), g results.Group) {
	var names []string
	why := ""
	for _, c := range g.Checks {
		if c.Result == "skip" {
			names, why = append(names, c.Name), c.Message
		}
	}

	switch len(names) {
	case 0:
	case 1:
		add(Warn, "check %s of %s could not be judged%s", names[0], g.Address, dash(why))
	default:
		add(Warn, "%d checks of %s could not be judged: %s", len(names), g.Address, List(names, 12))
	}
}

// noisy is the 95th percentile of the relative standard deviation from which
// on a table's rows are worth a warning.
const noisy = 0.05

func dash(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
