package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"aicplan/cudaops/probe"
	"aicplan/engine/run"
	"aicplan/sink/base/textutil"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

type systemsCmd struct {
	List     systemsListCmd     `cmd:"" help:"List the shipped system specs."`
	Show     systemsShowCmd     `cmd:"" help:"Print a system spec."`
	Validate systemsValidateCmd `cmd:"" help:"Check system specs: fields, spelling, units."`
	Probe    systemsProbeCmd    `cmd:"" help:"Make a spec of this machine: what is measured, looked up and unknown."`
}

type systemsListCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run lists the shipped specs with their main values.
func (c *systemsListCmd) Run(a *app) error {
	var all []map[string]any
	for _, name := range systems.List() {
		s, err := systems.Load(name)
		if err != nil {
			return err
		}

		if c.JSON {
			o := s.Object()
			o["name"] = name
			all = append(all, o)
			continue
		}

		if len(all) == 0 {
			fmt.Fprintf(a.stdout, "%-20s %4s %9s %9s %9s %6s %5s\n", "system", "SM", "memory", "bandwidth", "bf16",
				"power", "GPUs")
			all = append(all, nil)
		}

		sm := "-"
		if s.GPU.SMVersion > 0 {
			sm = fmt.Sprint(s.GPU.SMVersion)
		}

		bf16 := "-"
		if f, ok := s.Peak("bfloat16"); ok {
			bf16 = fmt.Sprintf("%.0f TF/s", f/1e12)
		}

		fmt.Fprintf(a.stdout, "%-20s %4s %6.0f GB %4.2f TB/s %9s %4.0f W %5d\n", name, sm,
			float64(s.GPU.MemCapacity)/1e9, float64(s.GPU.MemBW)/1e12, bf16, s.GPU.Power, s.Node.NumGPUsPerNode)
	}

	if c.JSON {
		return a.json(all)
	}

	return nil
}

type systemsShowCmd struct {
	Name string `arg:"" help:"Name of a shipped spec, or a file."`
	JSON bool   `name:"json" help:"Print as JSON."`
}

// Run prints the file or the values of one spec.
func (c *systemsShowCmd) Run(a *app) error {
	if c.JSON {
		s, err := specOf(c.Name)
		if err != nil {
			return err
		}
		return a.json(s.Object())
	}

	if src, ok := systems.Source(c.Name); ok {
		_, err := a.stdout.Write(src)
		return err
	}

	if _, err := specOf(c.Name); err != nil {
		return err
	}

	src, err := os.ReadFile(c.Name)
	if err != nil {
		return err
	}

	_, err = a.stdout.Write(src)
	return err
}

// specOf loads a shipped spec by name, or a file.
func specOf(name string) (*systems.Spec, error) {
	if info, err := os.Stat(name); err == nil {
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder; name a system file in it", name)
		}
		return systems.LoadFile(name)
	}
	return systems.Load(name)
}

type systemsValidateCmd struct {
	Names []string `arg:"" optional:"" help:"Files or names; default: every shipped spec."`
	JSON  bool     `name:"json" help:"Print as JSON."`
}

// Run checks specs and prints all problems.
func (c *systemsValidateCmd) Run(a *app) error {
	names := c.Names
	if len(names) == 0 {
		names = systems.List()
	}

	var all systems.Problems
	var unread []error
	for _, n := range names {
		_, err := specOf(n)
		var ps systems.Problems
		switch {
		case errors.As(err, &ps):
			all = append(all, ps...)
		case err != nil:
			unread = append(unread, err)
		}
	}

	if c.JSON {
		if all == nil {
			all = systems.Problems{}
		}
		if err := a.json(all); err != nil {
			return err
		}
	} else {
		for _, p := range all {
			fmt.Fprintln(a.stdout, p)
		}
		fmt.Fprintf(a.stdout, "Validated %s specs: %s problems.\n", textutil.Count(int64(len(names)-len(unread))),
			textutil.Count(int64(len(all))))
	}

	if len(unread) > 0 {
		return errors.Join(unread...)
	}
	if len(all) > 0 {
		return &exitError{code: run.ExitError, quiet: true}
	}

	return nil
}

type systemsProbeCmd struct {
	Device int    `help:"Device index in PCI order." default:"0" placeholder:"N"`
	Name   string `help:"Name of the system: its data folder is data/NAME." default:"probed" placeholder:"NAME"`
	JSON   bool   `name:"json" help:"Print as JSON."`
}

// Run measures a GPU and prints a spec in which every value has its source.
func (c *systemsProbeCmd) Run(a *app) error {
	release, err := a.holdDevices(runtimes.Devices, c.Device)
	if err != nil {
		return err
	}

	defer release()
	facts, err := probe.Measure(context.Background(), c.Device)
	if err != nil {
		return err
	}

	r, err := probe.Spec(facts)
	if err != nil {
		return err
	}

	if c.JSON {
		return a.json(r)
	}

	return r.YAML(a.stdout, "data/"+c.Name)
}
