package runtimes

import (
	"context"
	"fmt"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/cpu"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// cpuKind returns the kind that measures on this machine's processor.
func cpuKind() Kind {
	return Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "cpu",
			Summary:    "matrix products and memory on the machine's processor; for trying plans",
			Stability:  stage.Stable,
			Attributes: []string{"workers"},
			Options: []stage.Option{
				{Name: "synthetic", Type: cty.Bool, Default: "false", Beside: true,
					Doc: "adds an op `synthetic` that measures nothing and takes its latency from the case"},
				{Name: "window", Type: cty.Number, Beside: true,
					Doc: "cases that a worker visits in turn; 24 where it is left out, and 1 with `synthetic`"},
			},
			Closed:     true,
			Ops:        cpuOps(),
			Measure:    allMeasureBut("operating_point", "power"),
			Instrument: 3,
		},
		Slots: func(spec worker.Spec, rt *stage.Runtime, at Place, _ func() ([]Device, error)) ([]worker.Slot, error) {
			if len(rt.Devices) > 0 {
				return nil, fmt.Errorf("%s: a cpu runtime has no devices; remove the attribute", rt.Address)
			}
			return spread(spec, rt, []Device{{Index: -1}}), nil
		},
		OnProcessor:   true,
		Host:          func(init worker.Init) (worker.Host, error) { return cpu.Host(init), nil },
		Probe:         probeCPU,
		Look:          lookCPU,
		CaseSeconds:   cpuSeconds,
		Peaks:         cpuPeaks,
		FirstDeadline: 5 * time.Minute, // no loading, compiling or tuning
	}
}

func cpuOps() []stage.Op {
	ops := opsOf(cpu.Needs(), cpu.Words())
	for i := range ops {
		if ops[i].Name == "synthetic" {
			ops[i].Option = "synthetic"
		}
	}
	return ops
}

// probeCPU queries the cpu host in this process, which returns the same as a worker.
func probeCPU(ctx context.Context, rt *stage.Runtime) *Environment {
	h, err := cpu.Host(worker.Init{Runtime: rt.Name, Kind: rt.Kind, Device: -1}).Hello(ctx)
	if err != nil {
		return nil
	}
	e := EnvironmentOf(rt, &h)
	return &e
}

func lookCPU(ctx context.Context, _ *Pools, rt *stage.Runtime) (string, error) {
	env := probeCPU(ctx, rt)
	if env == nil {
		return "", &Missing{What: "the cpu runtime does not start in this build",
			Fix: "build aicplan with its module information (go build, not from single files)"}
	}
	return fmt.Sprintf("%s %s on %s", env.Framework, env.Version, env.Device), nil
}
