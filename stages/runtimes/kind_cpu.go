package runtimes

import (
	"context"
	"runtime"
	"time"

	"aicplan/cudaops/cpu"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// cpuKind returns the kind that measures on this machine's processor.
func cpuKind() *Kind {
	return &Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "cpu",
			Summary:    "matrix products and memory on the machine's processor; for trying plans",
			Stability:  stage.Stable,
			Attributes: []string{"workers"},
			Options:    Options(cpu.Options()),
			Closed:     true,
			Ops:        opsOf(cpu.Ops()),
			Measure:    allMeasureBut("operating_point", "power"),
			Instrument: 3,
		},
		OnProcessor:   true,
		Host:          func(init worker.Init) (worker.Host, error) { return cpu.Host(init), nil },
		FirstDeadline: 5 * time.Minute, // no loading, compiling or tuning
		PeakFlops:     coreFlops * float64(runtime.NumCPU()),
		PeakBytes:     processorMem,
		// The synthetic op measures nothing, so that it need not lock the processor.
		OffMachine:  func(rt *stage.Runtime) bool { return flagAt(rt.Options["synthetic"]) },
		Probe:       probeCPU,
		Look:        lookCPU,
		CaseSeconds: cpuSeconds,
	}
}

// probeCPU queries the cpu host in this process, which returns the same as a worker.
func probeCPU(ctx context.Context, rt *stage.Runtime) *Environment {
	options, err := plainOptions(rt, &Kind{}) // none of them is for the engine
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

func lookCPU(ctx context.Context, _ *Pools, rt *stage.Runtime) (string, error) {
	if env := probeCPU(ctx, rt); env != nil {
		return env.String(), nil
	}
	return "its options are not known yet", nil
}
