package model

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/phrase"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/failures"
)

// evidence gathers how the data was validated: gates and verifications of the
// run, then what the author states.
func (r *Report) evidence(in Input) {
	kinds := map[string]string{}
	for _, f := range in.Finished {
		kinds[f.Address] = f.Kind
	}
	for _, g := range r.Gates {
		c := results.Count([]results.Group{g})
		e := Evidence{Name: g.Address, Command: "aicplan apply: " + kinds[g.Address], Level: Good}
		all, pass := c.Passed+c.Failed+c.Warned, "pass"
		if all == 1 {
			pass = "passes"
		}
		e.Result = fmt.Sprintf("%d of %s %s", c.Passed, phrase.Counted(all, "check"), pass)
		if c.Skipped > 0 {
			e.Result += fmt.Sprintf(", %d not judged", c.Skipped)
		}
		switch {
		case c.Failed > 0 || LevelOf(g.Status) == Bad:
			e.Level = Bad
		case c.Warned > 0:
			e.Level = Warn
		}
		var bad []string
		for _, x := range g.Checks {
			if x.Result == "fail" || x.Result == "warn" {
				bad = append(bad, x.Name)
			}
		}
		if len(bad) > 0 {
			e.Result += "; not: " + List(bad, 4)
		}
		r.Evidence = append(r.Evidence, e)
	}
	for _, t := range r.Tables {
		if ref := t.Reference; ref != nil {
			e := Evidence{Name: t.Name + " against " + ref.A.Name, Command: "aicplan apply: report reference", Level: Good}
			e.Result = fmt.Sprintf("%s rows in common, %s only here, %s only there", phrase.Count(int64(ref.Common)), phrase.Count(int64(ref.Added)), phrase.Count(int64(ref.Removed)))
			if ref.Ratio != nil {
				e.Result += fmt.Sprintf("; ratio %.3f / %.3f / %.3f (p5, p50, p95)", ref.Ratio.P5, ref.Ratio.P50, ref.Ratio.P95)
			} else {
				e.Level = Warn
			}
			r.Evidence = append(r.Evidence, e)
		}
	}
	for _, e := range in.Evidence {
		e.Stated = true
		if e.Level == "" {
			e.Level = Good
		}
		r.Evidence = append(r.Evidence, e)
	}
}

// Stated lists the points of the checklist that only an evidence block can
// fulfil: what a reader of the database has to try.
var Stated = []struct{ Name, Text string }{
	{"loader", "The loader's and the database's tests pass with the new data"},
	{"database", "The database of this system, backend and version opens"},
	{"cli", "Representative queries of the command line find a configuration"},
	{"sanity_charts", "The sanity charts were drawn and read"},
}

// checklist goes through what a release of perf data has to show. Points that
// nobody can see from the run stay open until the plan states evidence.
func (r *Report) checklist() {
	add := func(text, level, format string, args ...any) {
		r.Checklist = append(r.Checklist, Item{Text: text, Level: level, Note: fmt.Sprintf(format, args...)})
	}
	when := func(ok bool, otherwise string) string {
		if ok {
			return Good
		}
		return otherwise
	}
	t := r.totals()
	c := results.Count(r.Gates)
	switch {
	case c.Failed > 0:
		add("Quality gates", Bad, "%s", failing(r.Gates))
	case c.Passed == 0:
		add("Quality gates", Open, "no gate judged the data")
	default:
		add("Quality gates", when(c.Warned == 0, Warn), "%s, %s", held(c.Passed), phrase.Counted(c.Warned, "warning"))
	}
	switch {
	case t.planned == 0 && !slices.ContainsFunc(r.Tables, func(t *Table) bool { return t.Imported }):
		add("Coverage of the plan", Open, "the run left no table that says")
	case t.planned == 0:
		add("Coverage of the plan", Open, "nothing was planned: the data was imported")
	default:
		add("Coverage of the plan", when(t.covered == t.planned, Warn), "%s of %s cases", phrase.Count(int64(t.covered)), phrase.Count(int64(t.planned)))
	}
	if r.Impact != "" {
		add("What users can do with it", Good, "%s", r.Impact)
	} else {
		add("What users can do with it", Open, "say it with impact = \"...\" in the report block")
	}
	r.nodeItems(add)
	files, rows := 0, 0
	for _, f := range r.Files {
		if f.Rows > 0 {
			files, rows = files+1, rows+f.Rows
		}
	}
	if files > 0 {
		add("Perf files", Good, "%s with %s", phrase.Counted(files, "file"), phrase.Counted(rows, "row"))
	} else {
		add("Perf files", Open, "the run exported none")
	}
	lost := t.planned - t.covered
	explained := t.failed + t.skipped
	switch {
	case r.Run.Unfinished:
		add("Missing cases have reasons", Open, "the run had not ended")
	case lost <= 0 && len(r.Tables) == 0:
		add("Missing cases have reasons", Open, "the run left no table that says")
	case lost <= 0:
		add("Missing cases have reasons", Good, "none is missing")
	default:
		add("Missing cases have reasons", when(explained >= lost, Bad), "%s missing, %s with a reason in the ledger", phrase.Count(int64(lost)), phrase.Count(int64(explained)))
	}
	unclassified := 0
	for _, g := range r.Failures {
		if g.Value("class") == "" {
			unclassified += g.Count
		}
	}
	add("Failures are classified", when(unclassified == 0, Bad), "%s in %s, %d without a class",
		phrase.Counted(failures.Total(r.Failures), "failed case"), phrase.Counted(len(r.Failures), "group"), unclassified)
	r.verified(add)
	if len(r.Changes) > 0 {
		add("Changes other than data", Good, "%s", List(r.Changes, 3))
	} else {
		add("Changes other than data", Open, "specs or collectors that changed: say it with changes = [...]")
	}
	for _, s := range Stated {
		i := slices.IndexFunc(r.Evidence, func(e Evidence) bool { return e.Stated && e.Name == s.Name })
		if i < 0 {
			add(s.Text, Open, "not shown; state it with evidence %q { ... }", s.Name)
		} else {
			e := r.Evidence[i]
			add(s.Text, e.Level, "%s (stated by the author)", strings.TrimSuffix(e.Result, "."))
		}
	}
	add("Remaining risks are named", Good, "%d named", len(r.Risks))
}

func failing(groups []results.Group) string {
	var names []string
	for _, g := range groups {
		if len(g.Checks) == 0 {
			names = append(names, g.Address)
		}
		for _, c := range g.Checks {
			if c.Result == "fail" {
				names = append(names, g.Address+" "+c.Name)
			}
		}
	}
	return List(names, 3)
}

func (r *Report) nodeItems(add func(text, level, format string, args ...any)) {
	if len(r.Nodes) == 0 {
		add("Node and device", Open, "no table says where it was measured")
		return
	}
	var where, versions, environment, lacking []string
	measured := true
	for i, n := range r.Nodes {
		where = addWord(where, strings.TrimPrefix(n.Host+": "+n.Device, ": "))
		versions = addWord(versions, strings.TrimSpace(n.Framework+" "+n.Version))
		for _, t := range r.Tables {
			if slices.Contains(r.Nodes[i].Tables, t.Name) && t.Imported {
				measured = false
			}
		}
		for _, f := range n.Facts {
			if strings.Contains(f.Name, "driver") || f.Name == "cuda" {
				environment = addWord(environment, f.Name+" "+f.Value)
			}
		}
		if n.Image != "" {
			environment = addWord(environment, n.Image)
			if n.Digest == "" {
				lacking = addWord(lacking, "no digest of "+n.Image)
			}
		}
	}
	add("Node and device", Good, "%s", List(where, 3))
	if len(environment) == 0 {
		add("Driver, CUDA, image", Open, "the runtime reports none")
	} else if len(lacking) > 0 {
		add("Driver, CUDA, image", Warn, "%s; %s: give the runtime's image_digest", List(environment, 4), List(lacking, 2))
	} else {
		add("Driver, CUDA, image", Good, "%s", List(environment, 4))
	}
	if measured {
		add("Version read inside the runtime", Good, "%s", List(versions, 3))
	} else {
		add("Version read inside the runtime", Warn, "%s; some of it as imported files say", List(versions, 3))
	}
}

// verified says whether a sample was measured again.
func (r *Report) verified(add func(text, level, format string, args ...any)) {
	level, note := Open, "no verify stage in the run"
	for _, s := range r.Stages {
		if !s.is.Verifies {
			continue
		}
		if l := LevelOf(s.Status); level == Open || l != Good {
			level, note = l, s.Address+" "+Words(s.Status)+dash(s.Message)
		}
		if s.Status == stage.StatusSkipped {
			level = Open
		}
	}
	add("A sample was measured again", level, "%s", note)
}
