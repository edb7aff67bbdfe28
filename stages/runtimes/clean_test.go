package runtimes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// draining is a device whose memory is freed after some time.
type draining struct {
	*cudatest.GPU
	looks, freeAfter int
}

func (d *draining) Memory() (nvml.Memory, error) {
	if d.looks++; d.looks > d.freeAfter {
		return nvml.Memory{Total: 140 << 30, Used: 1 << 30}, nil
	}
	return nvml.Memory{Total: 140 << 30, Used: 71 << 30}, nil
}

type oneDevice struct {
	cudatest.NVML
	d nvml.Device
}

func (o *oneDevice) Devices() ([]nvml.Device, error) { return []nvml.Device{o.d}, nil }

func TestCleanGPU(t *testing.T) {
	look := func(d *draining, s worker.Slot) (time.Duration, error) {
		var err error
		var took time.Duration
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err = CleanGPU(func() (nvml.API, error) { return &oneDevice{d: d}, nil })(t.Context(), s)
			took = time.Since(began)
		})
		return took, err
	}
	d := &draining{GPU: cudatest.H200(0), freeAfter: 10}
	if took, err := look(d, worker.Slot{Device: 0}); err != nil || took != 10*200*time.Millisecond {
		t.Errorf("took %v, %v", took, err)
	}
	d = &draining{GPU: cudatest.H200(0), freeAfter: 1 << 30}
	d.Procs = []nvml.Process{{PID: 4711, Memory: 70 << 30}}
	slot := worker.Slot{Device: 0}
	slot.Spec.Init.UUID = d.ID.UUID
	if took, err := look(d, slot); err == nil || took != cleanPatience ||
		!strings.Contains(err.Error(), "71.0 of 140.0 GiB are still in use after 30s, by process 4711 (70.0 GiB)") {
		t.Errorf("took %v, %v", took, err)
	}
	if _, err := look(d, worker.Slot{Device: 3}); err == nil || !strings.Contains(err.Error(), "no device 3") {
		t.Errorf("got %v", err)
	}
	if _, err := look(d, worker.Slot{Device: -1}); err != nil {
		t.Errorf("without a device: %v", err)
	}
	none := CleanGPU(func() (nvml.API, error) { return nil, nvml.ErrNotBuilt })
	if err := none(t.Context(), worker.Slot{}); err != nil {
		t.Errorf("without the library: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	busy := CleanGPU(func() (nvml.API, error) {
		return &oneDevice{d: &draining{GPU: cudatest.H200(0), freeAfter: 1 << 30}}, nil
	})
	if err := busy(ctx, worker.Slot{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
