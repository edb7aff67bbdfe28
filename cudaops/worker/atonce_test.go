package worker_test

import (
	"testing"

	"aicplan/cudaops/worker"
)

func TestAtOnceCountsDevicesOfInstruments(t *testing.T) {
	t.Parallel()
	join := func(func(msg any) error) worker.Measurer { return nil }
	var slots []worker.Slot
	for _, s := range []struct {
		device int
		join   func(func(msg any) error) worker.Measurer
	}{{0, join}, {0, join}, {1, join}, {2, nil}, {2, nil}, {-1, join}, {-1, join}} {
		slots = append(slots, worker.Slot{Device: s.device, Spec: worker.Spec{Instrument: s.join}})
	}

	p := worker.NewPool(t.Context(), worker.PoolSpec{Slots: slots})
	defer p.Close()
	if p.AtOnce() != 6 {
		t.Errorf("7 workers measure %d cases at once, want 6", p.AtOnce())
	}
}
