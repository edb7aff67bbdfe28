package runtimes

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/comm"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// onNCCL is the kind with one worker that uses all its GPUs.
type onNCCL struct{ Base }

func ncclKind() Kind {
	return &onNCCL{Base{
		RuntimeKind: stage.RuntimeKind{
			Name:       "nccl",
			Summary:    "collectives between the GPUs of one machine or of several, and copies within one",
			Stability:  stage.Stable,
			Attributes: []string{"devices"},
			Options: []stage.Option{
				{Name: "fault", Type: cty.String, Doc: "something that goes wrong on purpose, such as `wrong_sum@num_gpus=2`"},
				{Name: "gpus_per_node", Type: cty.Number, Doc: "GPUs of each node that communicate, where nodes is above 1"},
				{Name: "in_place", Type: cty.Bool, Default: "true", Doc: "measures every collective in place as well"},
				{Name: "method", Type: cty.String, OneOf: []string{comm.MethodEager, comm.MethodGraph},
					Doc: "how collectives are timed, for all cases"},
				{Name: "nodes", Type: cty.Number, Default: "1", Doc: "nodes whose GPUs communicate; those of an executor's task"},
				{Name: "pin", Type: cty.Bool, Default: "true", Doc: "gives every rank a core of its own"},
				{Name: "rank_launcher", Type: cty.List(cty.String),
					Doc:    "the command that starts a process for each GPU of several nodes; srun where it is left away. `{ranks}`, `{nodes}` and `{gpus_per_node}` are replaced",
					Beside: true},
				{Name: "rank_deadline", Type: cty.Number, Default: "15",
					Doc: "seconds after which a rank that does not answer ends the case"},
			},
			Closed:     true,
			Ops:        opsOf(comm.Needs(), comm.Words()),
			Measure:    allMeasureBut("min_block_seconds", "warmup_seconds"),
			Instrument: 4,
		},
		Host:      func(init worker.Init) (worker.Host, error) { return comm.Host(init), nil },
		Env:       []string{cudaOrder},
		UsesGPUs:  true,
		Libraries: []string{"driver", "nvrtc", "nccl"}, // custom kernels check the patterns
	}}
}

// Look implements Kind.
func (*onNCCL) Look(_ context.Context, p *Pools, _ *stage.Runtime) (string, error) {
	return p.lookGPUs()
}

// OneWorker implements Kind.
func (*onNCCL) OneWorker(*stage.Runtime) bool { return true }

// Slots implements Kind.
func (*onNCCL) Slots(spec worker.Spec, rt *stage.Runtime, _ Place, list func() ([]Device, error)) ([]worker.Slot,
	error) {
	devices, err := chosen(rt, list)
	if err != nil {
		return nil, err
	}

	if rt.Devices != nil {
		// Without this option, the worker takes the devices that the driver shows, which CUDA_VISIBLE_DEVICES
		// may renumber.
		spec.Init.Options["devices"] = indicesOf(devices)
	}

	alone := *rt
	alone.Workers = 1
	return spread(spec, &alone, []Device{{Index: -1}}), nil
}
