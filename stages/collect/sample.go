package collect

import (
	"encoding/json"
	"time"

	"aicplan/cudaops/worker"
)

// sampleEvery is how often a worker's newest row goes into the run's events, for
// whoever watches: rows themselves are in the journal.
const sampleEvery = 5 * time.Second

// slotSample is what was told of a worker so far.
type slotSample struct {
	at    time.Time // when its row last went into the events
	cases int       // that it has ended, failed ones too
}

// sampled writes an event with the metrics of a row and the number of cases that
// the worker has ended, at most one every few seconds for each worker.
func (r *running) sampled(o worker.Outcome) {
	s := r.samples[o.Slot]
	if s == nil {
		if r.samples == nil {
			r.samples = map[string]*slotSample{}
		}
		s = &slotSample{}
		r.samples[o.Slot] = s
	}
	s.cases++
	now := r.policy.now()
	if o.Failure != nil || len(o.Rows) == 0 || !s.at.IsZero() && now.Sub(s.at) < sampleEvery {
		return
	}
	s.at = now
	metrics := map[string]any{}
	for name, v := range o.Rows[0] {
		if n, ok := v.(json.Number); ok {
			metrics[name] = n
		}
	}
	fields := map[string]any{"worker": o.Slot, "cases": s.cases, "case_id": o.Task.Case.ID, "op": o.Task.Case.Op, "params": o.Task.Case.Params, "metrics": metrics}
	if o.Hello != nil && o.Hello.DeviceUUID != "" {
		fields["device_uuid"] = o.Hello.DeviceUUID
	}
	r.rc.Events.Emit(r.rc.Address, "sample", fields)
}
