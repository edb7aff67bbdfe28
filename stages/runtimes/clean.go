package runtimes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

const (
	// cleanPatience is how long memory of a dead worker may take to come free.
	cleanPatience = 30 * time.Second
	// cleanPoll is how often the device is looked at; the driver answers in about
	// a millisecond.
	cleanPoll = 200 * time.Millisecond
	// What an idle device has in use: the driver's own.
	idleShare = 0.03
	idleLeast = 3 << 29 // 1.5 GiB
)

// CleanGPU returns a PoolSpec.CleanDevice that waits until a GPU's memory is
// free: an out-of-memory error on a device that others fill says nothing about
// the case. Machines without a management library are taken as clean.
func CleanGPU(open func() (nvml.API, error)) func(ctx context.Context, s worker.Slot) error {
	return func(ctx context.Context, s worker.Slot) error {
		if s.Device < 0 {
			return nil
		}
		api, err := open()
		if err != nil {
			return nil
		}
		defer api.Close() //nolint:errcheck // nothing was changed
		d, err := deviceOf(api, s)
		if err != nil {
			return err
		}
		waited := time.Duration(0)
		for {
			m, err := d.Memory()
			if err != nil {
				return fmt.Errorf("its memory cannot be read: %w", err)
			}
			if m.Used <= max(idleLeast, int64(idleShare*float64(m.Total))) {
				return nil
			}
			if waited >= cleanPatience {
				return fmt.Errorf("%.1f of %.1f GiB are still in use after %v%s", gib(m.Used), gib(m.Total), cleanPatience, users(d))
			}
			timer := time.NewTimer(cleanPoll)
			select {
			case <-timer.C:
				waited += cleanPoll
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
	}
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// deviceOf finds the slot's device, by its UUID where that is known.
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

// users names the processes on a device, as far as the driver shows them.
func users(d nvml.Device) string {
	procs, err := d.Processes()
	if err != nil || len(procs) == 0 {
		return ", by processes that cannot be seen from here"
	}
	var parts []string
	for _, p := range procs {
		parts = append(parts, fmt.Sprintf("%d (%.1f GiB)", p.PID, gib(p.Memory)))
	}
	return ", by process " + strings.Join(parts, ", ")
}
