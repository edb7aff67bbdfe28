package runtimes

import (
	"aicplan/cudaops/comm"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// ncclKind returns the kind with one worker that uses all its GPUs.
func ncclKind() *Kind {
	return &Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "nccl",
			Summary:    "collectives between the GPUs of one machine or of several, and copies within one",
			Stability:  stage.Stable,
			Attributes: []string{"devices"},
			Options:    Options(comm.Options()),
			Closed:     true,
			Ops:        opsOf(comm.Ops()),
			Measure:    allMeasureBut("min_block_seconds", "warmup_seconds"),
			Instrument: 5,
		},
		Host:        func(init worker.Init) (worker.Host, error) { return comm.Host(init), nil },
		Env:         []string{cudaOrder},
		UsesGPUs:    true,
		Libraries:   []string{"driver", "nvrtc", "nccl"}, // compiled kernels check the patterns
		OneWorker:   func(*stage.Runtime) bool { return true },
		Slots:       ncclSlots,
		CaseSeconds: ncclSeconds,
	}
}

func ncclSlots(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error) {
	devices, err := p.chosen(rt)
	if err != nil {
		return nil, err
	}

	if rt.Devices != nil {
		// Without this option, the worker takes the devices that the driver shows, which CUDA_VISIBLE_DEVICES
		// may renumber.
		spec.Init.Options["devices"] = indicesOf(devices)
	}

	return spread(spec, 1, []Device{{Index: -1}}), nil
}
