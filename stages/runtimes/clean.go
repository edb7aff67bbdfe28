package runtimes

import (
	"context"
	"fmt"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// cleanPatience is how long the memory of a dead worker may take to be freed.
const cleanPatience = 30 * time.Second

// CleanGPU returns a PoolSpec.CleanDevice function that waits until a GPU's memory is free, so that an
// out-of-memory error is not caused by other processes. Machines without a management library count as
// clean.
func CleanGPU(open func() (nvml.API, error)) func(ctx context.Context, s worker.Slot) error {
	return func(ctx context.Context, s worker.Slot) error {
		if s.Device < 0 {
			return nil
		}

		api, err := open()
		if err != nil {
			return nil
		}

		d, err := deviceOf(api, s)
		if err != nil {
			return err
		}

		return nvml.WaitFree(ctx, d, cleanPatience)
	}
}

// deviceOf returns the slot's device, by UUID if it is known and by index otherwise.
func deviceOf(api nvml.API, s worker.Slot) (nvml.Device, error) {
	if uuid := s.Spec.Init.UUID; uuid != "" {
		return nvml.Find(api, uuid)
	}

	all, err := api.Devices()
	if err != nil {
		return nil, err
	}

	if s.Device >= len(all) {
		return nil, fmt.Errorf("there is no device %d; the driver lists %d", s.Device, len(all))
	}

	return all[s.Device], nil
}
