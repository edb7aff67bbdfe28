package main

import (
	"context"
	"fmt"
	"os"

	"aicplan/cudaops/doctor"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

type systemsCmd struct {
	Show  systemsShowCmd  `cmd:"" help:"List the shipped system specs, or print one."`
	Probe systemsProbeCmd `cmd:"" help:"Make a spec of this machine: what is measured, looked up and unknown."`
}

type systemsShowCmd struct {
	Name string `arg:"" optional:"" help:"Name of a shipped spec, or a file; default: list all."`
	JSON bool   `name:"json" help:"Print as JSON."`
}

// Run prints the file or the values of one spec, or lists the shipped specs.
func (c *systemsShowCmd) Run(a *app) error {
	if c.Name == "" {
		return c.list(a)
	}

	s, err := specOf(c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.json(s.Object())
	}

	src, ok := systems.Source(c.Name)
	if !ok {
		if src, err = fileutil.ReadText(c.Name); err != nil {
			return err
		}
	}

	_, err = a.stdout.Write(src)
	return err
}

func (c *systemsShowCmd) list(a *app) error {
	var all []map[string]any
	t := new(textutil.Table).Left("system").Right("SM", "memory", "bandwidth", "bf16", "power", "GPUs")
	for _, name := range systems.List() {
		s, err := systems.Load(name)
		if err != nil {
			return err
		}

		o := s.Object()
		o["name"] = name
		all = append(all, o)

		sm, bf16 := "-", "-"
		if s.GPU.SMVersion > 0 {
			sm = fmt.Sprint(s.GPU.SMVersion)
		}
		if f, ok := s.Peak("bfloat16"); ok {
			bf16 = fmt.Sprintf("%.0f TF/s", f/1e12)
		}
		t.Row(name, sm, fmt.Sprintf("%.0f GB", float64(s.GPU.MemCapacity)/1e9),
			fmt.Sprintf("%.2f TB/s", float64(s.GPU.MemBW)/1e12), bf16, fmt.Sprintf("%.0f W", s.GPU.Power), s.Node.NumGPUsPerNode)
	}

	if c.JSON {
		return a.json(all)
	}
	return a.table(t)
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
	facts, err := doctor.Measure(context.Background(), c.Device)
	if err != nil {
		return err
	}

	r, err := doctor.SystemSpec(facts)
	if err != nil {
		return err
	}

	if c.JSON {
		return a.json(r)
	}

	return r.YAML(a.stdout, "data/"+c.Name)
}
