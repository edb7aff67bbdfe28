package report

import (
	"cmp"
	"fmt"
	"slices"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/report/model"
)

// Loader reads back what a stage record names; engine/run has one.
type Loader func(*checkpoint.Store, *checkpoint.StageRecord) (*stage.Dataset, error)

// Input gathers what the report of a past run is made of.
func (p *Past) Input(store *checkpoint.Store, load Loader) (model.Input, error) {
	in := model.Input{System: shipped, Run: model.Run{
		ID: p.Run.ID, Plan: p.Plan, Started: p.Started.UTC().Format("2006-01-02T15:04:05Z"), Seconds: p.Seconds,
		Unfinished: !p.Ended, Partial: p.Options.Partial(),
		Idle: p.Idle(),
	}}
	if p.Ended {
		in.Run.ExitCode = &p.ExitCode
	}

	in.Title = p.Statement.Title
	data := map[string]*stage.Dataset{}

	stale := map[string]string{}
	for _, s := range p.Stages {
		if !s.Class.Measurements() || !kept(s.Outcome.Status) {
			continue
		}

		rec, err := store.ReadStage(s.Address)
		if err != nil {
			stale[s.Address] = "its record is gone from the state folder"
			continue
		}

		if s.Class == stage.Source && rec.Outputs.Table == "" {
			continue // a grid has cases and no table
		}

		if rec.FinishedAt.After(p.at[s.Address]) {
			stale[s.Address] = fmt.Sprintf("a later run, %s, has replaced its data, which is what is shown",
				cmp.Or(rec.RunID, "unknown"))
		}

		if data[s.Address], err = load(store, rec); err != nil {
			stale[s.Address] = err.Error()
			continue
		}

		s.Outcome.Data = data[s.Address]
	}

	in.Finished = slices.Clone(p.Stages)
	if !p.Ended {
		in.Finished = append(in.Finished, p.Open...)
	}

	var references []*stage.Dataset
	for _, addr := range p.Statement.References {
		references = append(references, data[addr])
	}

	for _, addr := range p.tables(data) {
		from := p.source(addr, data)
		t := model.TableInput{Address: addr, Data: data[from], Stale: stale[from]}
		t.Compare(references, p.Statement.References)
		in.Tables = append(in.Tables, t)
	}

	return in, nil
}

// describes reports whether stages of a class give a report its tables. Verifications do not.
func describes(c stage.Class) bool { return c.Measurements() && c != stage.Verify }

func kept(s stage.Status) bool {
	return s == stage.StatusOK || s == stage.StatusPartial || s == stage.StatusInterrupted
}

// tables are the stages that the run's own report describes, so that both give
// the same numbers; without one the last stage of every table.
func (p *Past) tables(data map[string]*stage.Dataset) []string {
	var out []string
	for _, addr := range p.Statement.Inputs {
		if p.source(addr, data) != "" {
			out = append(out, addr)
		}
	}

	if len(out) > 0 {
		return out
	}
	return slices.DeleteFunc(p.leaves(data), func(addr string) bool {
		return slices.Contains(p.Statement.References, addr)
	})
}

// leaves are the last stages that have a table each: of collect, dedupe and
// gate the gate. A gate that failed has left no table, then the stage before it
// counts.
func (p *Past) leaves(data map[string]*stage.Dataset) []string {
	read := map[string]bool{}
	for _, s := range p.Stages {
		if !describes(s.Class) || data[s.Address] == nil {
			continue
		}
		for _, before := range model.Reads(p.Stages, s.Address) {
			if d := data[before]; d != nil && same(d, data[s.Address]) {
				read[before] = true
			}
		}
	}

	var out []string
	for _, s := range p.Stages {
		if d := data[s.Address]; d != nil && describes(s.Class) && !read[s.Address] && (d.Table != nil || d.Planned != nil) {
			out = append(out, s.Address)
		}
	}

	return out
}

// source is the stage whose table a report shows for an input: its own, or of
// one that failed the one that it judged.
func (p *Past) source(address string, data map[string]*stage.Dataset) string {
	if d := data[address]; d != nil && (d.Table != nil || d.Planned != nil) {
		return address
	}

	for _, before := range model.Reads(p.Stages, address) {
		if s := p.source(before, data); s != "" {
			return s
		}
	}

	return ""
}

// same reports whether a stage passes on this input. A gate's reference is an input
// too, but it is not passed on.
func same(before, after *stage.Dataset) bool {
	return before.Info.Op == after.Info.Op && before.Info.Perf == after.Info.Perf &&
		before.Info.Framework == after.Info.Framework &&
		before.Info.Version == after.Info.Version && (before.Planned == nil) == (after.Planned == nil)
}
