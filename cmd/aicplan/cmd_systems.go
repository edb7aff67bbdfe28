package main

import (
	"cmp"
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
	Name   string `arg:"" optional:"" help:"Name of a shipped, or of the new, spec, or a file."`
	Probe  bool   `help:"Measure a GPU of this machine and print a spec with the source of each value."`
	Device int    `help:"Device to probe, by its index in PCI order." default:"0"`
	JSON   bool   `name:"json" help:"Print as JSON."`
}

// Run prints a shipped spec, lists all of them, or probes a device.
func (c *systemsCmd) Run(a *app) error {
	switch {
	case c.Probe:
		return c.probe(a)
	case c.Name == "":
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

func (c *systemsCmd) list(a *app) error {
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

// probe measures a GPU and prints a spec in which every value has its source.
func (c *systemsCmd) probe(a *app) error {
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

	return r.YAML(a.stdout, "data/"+cmp.Or(c.Name, "probed"))
}
