package runtimes

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"aicplan/cudaops/cpu"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// onCPU is the kind that measures on this machine's processor.
type onCPU struct{ Base }

func cpuKind() Kind {
	return &onCPU{Base{
		RuntimeKind: stage.RuntimeKind{
			Name:       "cpu",
			Summary:    "matrix products and memory on the machine's processor; for trying plans",
			Stability:  stage.Stable,
			Attributes: []string{"workers"},
			Options:    Options(cpu.Options()),
			Closed:     true,
			Ops:        cpuOps(),
			Measure:    allMeasureBut("operating_point", "power"),
			Instrument: 3,
		},
		OnProcessor:   true,
		Host:          func(init worker.Init) (worker.Host, error) { return cpu.Host(init), nil },
		FirstDeadline: 5 * time.Minute, // no loading, compiling or tuning
		PeakFlops:     coreFlops * float64(runtime.NumCPU()),
		PeakBytes:     processorMem,
	}}
}

func cpuOps() []stage.Op {
	ops := opsOf(cpu.Ops())
	for i := range ops {
		if ops[i].Name == "synthetic" {
			ops[i].Option = "synthetic"
		}
	}
	return ops
}

// OffMachine implements Kind. The synthetic op measures nothing, so that it need not lock the processor.
func (*onCPU) OffMachine(rt *stage.Runtime) bool {
	return flagAt(rt.Options["synthetic"])
}

// Slots implements Kind.
func (k *onCPU) Slots(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error) {
	if len(rt.Devices) > 0 {
		return nil, fmt.Errorf("%s: a cpu runtime has no devices; remove the attribute", rt.Address)
	}
	return k.Base.Slots(p, spec, rt)
}

// Probe queries the cpu host in this process, which returns the same as a worker.
func (k *onCPU) Probe(ctx context.Context, rt *stage.Runtime) *Environment {
	options, err := plainOptions(rt, k.About())
	if err != nil {
		return nil
	}
	h, err := cpu.Host(worker.Init{Runtime: rt.Name, Kind: rt.Kind, Options: options, Device: -1}).Hello(ctx)
	if err != nil {
		return nil
	}
	e := EnvironmentOf(rt, &h)
	return &e
}

// Look implements Kind.
func (k *onCPU) Look(ctx context.Context, _ *Pools, rt *stage.Runtime) (string, error) {
	if env := k.Probe(ctx, rt); env != nil {
		return env.String(), nil
	}
	return "its options are not known yet", nil
}
