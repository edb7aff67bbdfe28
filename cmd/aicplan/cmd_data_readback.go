package main

import (
	"errors"
	"fmt"
	"strings"

	"aicplan/engine/run"
	"aicplan/sink/readback"
)

type dataReadBackCmd struct {
	Dir     string `arg:"" help:"The database's folder: data and the specs of systems are in it." type:"path"`
	Python  string `help:"The interpreter that has aisimulate or aiconfigurator." default:"python3" placeholder:"FILE"`
	Package string `help:"aisimulate or aiconfigurator (default: installed)." enum:",aisimulate,aiconfigurator" default:""`
	Against string `help:"Another database, which must give equal answers." placeholder:"DIR" type:"path"`
	System  string `help:"The system; default: the only one." placeholder:"NAME"`
	Backend string `help:"The backend; default: the only one." placeholder:"NAME"`
	Version string `help:"The backend's version; default: the only one." placeholder:"TEXT"`
	Rows    int    `help:"Rows of each table to ask about, each also beside its place." default:"50" least:"1"`
	JSON    bool   `name:"json" help:"Print as JSON."`
}

// Help is printed below the flags.
func (c *dataReadBackCmd) Help() string {
	return `Runs the reader of aisimulate or aiconfigurator over this database alone, and counts what it answers. For each
row that is asked about, places between rows are asked about too. "Rows as they are" are those for which the package
answers the row's own time to the last bit; for some tables it adds to it. No GPU is needed.

With --against it compares the answers, to the last bit, with those from another database. What --json prints is
what the draft block of publish reads.

Exit codes: 0 every table that has a query was read; 1 a mistake, or no such package; 4 a table was not read, or answers
differ.`
}

// Run queries the package's reader.
func (c *dataReadBackCmd) Run(a *app) error {
	v, err := c.version()
	if err != nil {
		return err
	}

	a.endPlanning()
	ctx, end := untilSignal() // the interpreter is ended by this process
	defer end()
	r, err := readback.Run(ctx, c.Dir, readback.Options{
		Python: c.Python, Package: c.Package, Against: c.Against, System: v.System, Backend: v.Backend, Version: v.Version,
		Rows: c.Rows,
	})

	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "Error: interrupted: %v\n", err)
		return exitError(run.ExitInterrupted)
	}
	if err != nil {
		return err
	}

	if c.JSON {
		err = a.json(r)
	} else {
		queries, answered, differ := r.Totals()
		_, err = fmt.Fprint(a.stdout, view("read-back", struct {
			*readback.Report
			Queries, Answered, Differ int
		}{r, queries, answered, differ}))
	}

	if err != nil {
		return err
	}

	return exitIf(r.Failed(), run.ExitGate)
}

// version returns the only version that matches the flags.
func (c *dataReadBackCmd) version() (readback.Version, error) {
	all, err := readback.Versions(c.Dir)
	if err != nil {
		return readback.Version{}, err
	}

	var fit []readback.Version
	var names []string
	for _, v := range all {
		names = append(names, v.System+" "+v.Backend+" "+v.Version)
		if (c.System == "" || c.System == v.System) && (c.Backend == "" || c.Backend == v.Backend) &&
			(c.Version == "" || c.Version == v.Version) {
			fit = append(fit, v)
		}
	}

	switch {
	case len(all) == 0:
		return readback.Version{}, fmt.Errorf("%s has no perf files of a backend in the layout families or systems (those "+
			"of NCCL and oneCCL are read with a backend)",
			c.Dir)
	case len(fit) == 0:
		return readback.Version{}, fmt.Errorf("%s has no such tables; it has %s", c.Dir, strings.Join(names, ", "))
	case len(fit) > 1:
		return readback.Version{}, errors.New(c.Dir + " has several versions: " + strings.Join(names, ", ") +
			"; choose by --system, --backend and --version")
	}

	return fit[0], nil
}
