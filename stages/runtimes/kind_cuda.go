package runtimes

import (
	"cmp"
	"fmt"
	"maps"
	"os"

	"aicplan/cudaops/ops"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// cudaOrder makes CUDA number the devices in the driver's order.
const cudaOrder = "CUDA_DEVICE_ORDER=PCI_BUS_ID"

// cudaKind returns the kind with one or more workers per GPU.
func cudaKind() *Kind {
	return &Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "cuda",
			Summary:    "matrix products, memory, elementwise ops and users' kernels on NVIDIA GPUs, by cuBLASLt and CUDA alone",
			Stability:  stage.Stable,
			Attributes: []string{"devices", "workers"},
			Options:    Options(ops.Options()),
			Closed:     true,
			Ops:        opsOf(ops.Ops()),
			Measure:    allMeasureBut("max_samples", "target_rel_stdev", "max_pass_seconds"),
			Binds:      "a CUDA kernel",
			Instrument: 4,
		},
		Host:         func(init worker.Init) (worker.Host, error) { return ops.New(init), nil },
		CheckBinding: ops.CheckBinding,
		Env:          []string{cudaOrder},
		UsesGPUs:     true,
		Libraries:    []string{"driver", "cublaslt", "nvrtc"},
		Slots:        cudaSlots,
		Bind:         readKernel,
		CaseSeconds:  cudaSeconds,
		OpSeconds:    layerSeconds,
	}
}

func cudaSlots(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error) {
	devices, err := p.chosen(rt)
	if err != nil {
		return nil, err
	}
	return spread(spec, rt.Workers, devices), nil
}

// lookGPUs is the Look function of kinds that need only GPUs and their driver.
func (p *Pools) lookGPUs() (string, error) {
	devices, err := p.Devices()
	if err != nil {
		return "", missing("run on a machine with an NVIDIA GPU and its driver", "%v", err)
	}
	if len(devices) == 0 {
		return "", missing("run on a machine with an NVIDIA GPU and its driver; in a container, start it with --gpus all; "+
			"look at CUDA_VISIBLE_DEVICES", "no GPU is visible")
	}
	return describe(devices), nil
}

// readKernel replaces the file of a CUDA kernel in the binding by its source, because the meaning of
// rows depends on it. The file must be below the plan's folder. Bindings without a file are returned
// unchanged.
func readKernel(bind map[string]any, planDir string) (map[string]any, error) {
	name, ok := bind["file"].(string)
	if !ok {
		return bind, nil
	}

	root, err := os.OpenRoot(cmp.Or(planDir, "."))
	if err != nil {
		return nil, fmt.Errorf("bind.file: %w", err)
	}

	defer root.Close()
	src, err := root.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("bind.file is %q, which must be a file below the plan's folder: %w", name, err)
	}

	with := maps.Clone(bind)
	delete(with, "file")
	with["source"] = string(src)
	if _, named := with["name"]; !named {
		with["name"] = name
	}

	return with, nil
}
