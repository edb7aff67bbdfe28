package main

import (
	"fmt"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/collect"
	"aicplan/stages/importer"
)

type ckptImportCmd struct {
	planFlags `embed:""`
	Address   string   `arg:"" help:"Address of the collect stage that the rows answer."`
	Files     []string `arg:"" help:"Perf files, or folders of one table." type:"path"`
	Table     string   `help:"Perf table, if the files' names do not state it." placeholder:"NAME"`
	Framework string   `help:"Framework, if the rows lack it." placeholder:"NAME"`
	Measured  string   `name:"framework-version" help:"Framework's version, if the rows lack it." placeholder:"VERSION"`
	Device    string   `help:"Device, if the rows lack it." placeholder:"NAME"`
	DryRun    bool     `help:"Only count."`
	JSON      bool     `name:"json" help:"Print as JSON."`
}

// seeded is the result for one file.
type seeded struct {
	File  string   `json:"file"`
	Drift []string `json:"drift,omitempty"`
	importer.SeedReport
}

// Run adds rows of perf files to the case cache, so that apply measures only the missing cases.
func (c *ckptImportCmd) Run(a *app) error {
	store, err := a.open(c.DryRun)
	if err != nil {
		return err
	}

	m, err := c.measurement(a)
	if err != nil {
		return err
	}

	if !c.DryRun {
		lock, err := a.lock(store)
		if err != nil {
			return err
		}
		defer lock.Release()
	}

	var sets []*importer.Set
	for _, f := range c.Files {
		set, err := importer.Load(f, importer.Options{
			Table:     c.Table,
			Framework: c.Framework, FrameworkVersion: c.Measured, Device: c.Device,
		})

		if err != nil {
			return err
		}
		sets = append(sets, set)
	}

	var out []seeded
	for _, dryRun := range []bool{true, c.DryRun} { // no file is seeded if one of them cannot be
		out = nil
		for i, set := range sets {
			rep, err := importer.Seed(store, m, set, dryRun)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Files[i], err)
			}
			out = append(out, seeded{c.Files[i], set.Drift, rep})
		}
	}

	if c.JSON {
		return a.json(out)
	}

	fmt.Fprint(a.stdout, view("seeded", out))
	if c.DryRun {
		fmt.Fprintln(a.stdout, "Nothing was written (--dry-run).")
	}

	return nil
}

// measurement plans the stage and returns how it measures.
func (c *ckptImportCmd) measurement(a *app) (*collect.Measurement, error) {
	s, err := a.planStage(c.planFlags, c.Address, true)
	if err != nil {
		return nil, err
	}

	if in := s.Instance; in.Kind.Class != stage.Measure {
		kind := textutil.WithArticle(in.Kind.Name)
		return nil, fmt.Errorf("%s is %s; rows go into the case cache of a collect stage", in.Address, kind)
	}

	if m := collect.MeasurementOf(s.Plan); m != nil {
		return m, nil
	}

	return nil, fmt.Errorf("the cases of %s are not known from the plan alone: %s", s.Address(), s.Reason)
}
