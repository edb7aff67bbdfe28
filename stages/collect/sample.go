package collect

import (
	"encoding/json"
	"time"

	"aicplan/cudaops/worker"
)

// sampleEvery is how often a worker's newest row goes into the run's events, for
// whoever watches: rows themselves are in the journal.
const sampleEvery = 5 * time.Second

// sampled writes an event with the metrics of a row, at most one every few
// seconds for each worker.
func (r *running) sampled(o worker.Outcome) {
	if o.Failure != nil || len(o.Rows) == 0 {
		return
	}
	now := r.policy.now()
	if last, ok := r.samples[o.Slot]; ok && now.Sub(last) < sampleEvery {
		return
	}
	if r.samples == nil {
		r.samples = map[string]time.Time{}
	}
	r.samples[o.Slot] = now
	metrics := map[string]any{}
	for name, v := range o.Rows[0] {
		if n, ok := v.(json.Number); ok {
			metrics[name] = n
		}
	}
	fields := map[string]any{"worker": o.Slot, "case_id": o.Task.Case.ID, "op": o.Task.Case.Op, "params": o.Task.Case.Params, "metrics": metrics}
	if o.Hello != nil && o.Hello.DeviceUUID != "" {
		fields["device_uuid"] = o.Hello.DeviceUUID
	}
	r.rc.Events.Emit(r.rc.Address, "sample", fields)
}
