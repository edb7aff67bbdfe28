package model

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/stages/gate/results"
)

// Build works the report out. It fails when a ledger or a reference cannot be
// read as one.
func Build(in Input) (*Report, error) {
	in.Run.Plan = shortPath(in.Run.Plan)
	r := &Report{Title: cmp.Or(in.Title, "Performance data"), Run: in.Run, Watched: in.Watched, Requests: in.Requests}
	for _, f := range in.Finished {
		if f.Outcome == nil {
			f.Outcome = &stage.Outcome{}
		}

		r.Stages = append(r.Stages, Stage{
			Address: f.Address, Kind: f.Kind, class: f.Class, Status: f.Outcome.Status, Reused: f.Reused, Seconds: f.Seconds,
			Message: f.Outcome.Message, Counts: f.Outcome.Counts,
		})
		if f.Waterfall != nil {
			r.Waterfalls = append(r.Waterfalls, Waterfall{Grid: f.Address, Waterfall: f.Waterfall})
		}

		for _, a := range f.Outcome.Artifacts {
			r.Files = append(r.Files, File{Path: a.Path, Rows: a.Rows, Digest: a.Digest, Stage: f.Address})
		}
	}

	relative(r.Files)
	r.Gates = judged(in.Finished)
	r.Predictions = comparisons(r.Gates)
	for _, ti := range in.Tables {
		t, err := describe(ti, in)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, t)
	}

	tellApart(r.Tables)
	r.attachGates(in.Finished)

	r.Nodes = nodes(in.Tables, r.Tables)
	if err := r.losses(in); err != nil {
		return nil, err
	}

	r.risks()
	r.Verdict = r.verdict()
	r.Figures = r.figures()
	r.Glance = r.glance()

	return r, nil
}

// shortPath keeps a file's name and its folder.
func shortPath(path string) string {
	if path == "" {
		return ""
	}

	dir, name := filepath.Split(filepath.ToSlash(path))
	if base := filepath.Base(dir); dir != "" && base != "/" && base != "." {
		return base + "/" + name
	}
	return name
}

// manyFiles is the number of files of a stage above which they are listed by folder.
const manyFiles = 8

// FileList returns the files of the run for people. Of a stage with many files, it has the folders with the
// number of files instead.
func (r *Report) FileList() []File {
	by := map[string][]string{}
	for _, f := range r.Files {
		by[f.Stage] = append(by[f.Stage], filepath.ToSlash(f.Path))
	}

	var out []File
	for _, f := range r.Files {
		paths := by[f.Stage]
		switch {
		case len(paths) > manyFiles:
			for _, folder := range textutil.Folders(paths) {
				count := textutil.Counted(folder.Count, "file")
				out = append(out, File{Path: folder.Path + ": " + count, Stage: f.Stage})
			}
			by[f.Stage] = nil
		case paths != nil:
			out = append(out, f)
		}
	}
	return out
}

// relative removes the common folders of paths, because the report is read on other
// machines.
func relative(files []File) {
	if len(files) == 0 {
		return
	}

	dir := filepath.Dir(files[0].Path)
	for _, f := range files[1:] {
		for dir != "/" && dir != "." && !strings.HasPrefix(f.Path, dir+"/") {
			dir = filepath.Dir(dir)
		}
	}

	for i := range files {
		if rel, err := filepath.Rel(dir, files[i].Path); err == nil && filepath.IsLocal(rel) {
			files[i].Path = filepath.ToSlash(filepath.Join(filepath.Base(dir), rel))
		}
	}
}

// judged returns the stages with checks for the report. It omits imports and dedupes
// without findings.
func judged(finished []stage.Finished) []results.Group {
	out := results.Of(finished)
	classes := map[string]stage.Class{}
	for _, f := range finished {
		classes[f.Address] = f.Class
	}
	return slices.DeleteFunc(out, func(g results.Group) bool {
		c := classes[g.Address]
		return c.CanStop() && !c.Judges() &&
			!slices.ContainsFunc(g.Checks, func(c stage.CheckResult) bool { return c.Result != "pass" })
	})
}

// attachGates gives every table the gate that judged it: the table's own stage,
// or one that reads it.
func (r *Report) attachGates(finished []stage.Finished) {
	for _, t := range r.Tables {
		ofGate := r.classOf(t.Address) == stage.Check
		var groups []results.Group
		var addresses []string
		for _, f := range finished {
			judges := f.Address == t.Address || !ofGate && slices.Contains(Reads(finished, f.Address), t.Address)
			if f.Class != stage.Check || !judges || f.Outcome == nil ||
				len(f.Outcome.Checks) == 0 && f.Outcome.Status != stage.StatusFailed {
				continue // it is no gate of the table, or never ran
			}
			groups = append(groups, results.Group{Status: f.Outcome.Status, Checks: f.Outcome.Checks})
			addresses = append(addresses, f.Address)
		}

		if len(groups) > 0 {
			t.Gate = &Gate{strings.Join(addresses, ", "), results.Count(groups), addresses}
		}
	}
}

// losses fills in failures and skips.
func (r *Report) losses(in Input) error {
	var sources []StageLedger
	seen := map[any]bool{}
	add := func(address string, ds *stage.Dataset) {
		if ds == nil || table.Len(ds.Ledger) == 0 || seen[ds.Ledger] {
			return
		}
		seen[ds.Ledger] = true
		sources = append(sources, StageLedger{address, ds})
	}
	for _, f := range in.Finished {
		// Dedupe and gate pass ledgers on: count each once, at its collect.
		if f.Class == stage.Measure && f.Outcome != nil {
			add(f.Address, f.Outcome.Data)
		}
	}

	if len(sources) == 0 {
		for _, t := range in.Tables {
			add(t.Address, t.Data)
		}
	}

	var err error
	if r.Failures, err = GroupFailures(sources, "failed", "op", "class", "message"); err != nil {
		return err
	}

	skipped, err := GroupFailures(sources, "skipped", "stage", "class", "message")
	if err != nil {
		return err
	}

	for _, w := range r.Waterfalls {
		for _, f := range w.Filters {
			if f.Dropped == 0 {
				continue
			}
			s := Skip{Where: w.Grid, Kind: "filter", Name: f.Name, Reason: f.Reason, Count: f.Dropped,
				Meaning: meaning["filter"]}
			if len(f.Samples) > 0 {
				s.Example = f.Samples[0]
			}
			r.Skips = append(r.Skips, s)
		}
	}

	for _, g := range skipped {
		class := g.Value("class")
		r.Skips = append(r.Skips, Skip{
			Where: g.Value("stage"), Kind: class, Reason: g.Example.Message, Count: int64(g.Count), Example: g.Example.Case(),
			Meaning: cmp.Or(meaning[class], "see the reason"),
		})
	}

	return nil
}

// meaning returns the cause of a skip.
var meaning = map[string]string{
	"filter":             "excluded by the plan, before anything ran",
	"unsupported_config": "limit of the runtime or the GPU",
	"framework_bug":      "fault of the framework",
	"collector_bug":      "gap of the collector",
	"resource_issue":     "limit of memory or time",
	"tripped":            "its group failed from the first case on; tried again with --retry tripped",
	"ramp":               "a smaller sample failed before it",
	"not_selected":       "left out by --limit or --smoke",
	"interrupted":        "the run was interrupted",
	"transient":          "may pass when tried again",
	"timeout":            "took longer than its deadline",
}

// tellApart adds the stage to the names of tables that are equal otherwise, such as
// those of two models under the same load.
func tellApart(tables []*Table) {
	same := map[[3]string][]*Table{}
	for _, t := range tables {
		is := [3]string{t.Name, t.Framework, t.Version}
		same[is] = append(same[is], t)
	}

	for _, twins := range same {
		for _, t := range twins {
			if len(twins) > 1 && t.Name != t.Address {
				t.Name += " of " + t.Address
			}
		}
	}
}
