package collect

import (
	"encoding/json"
	"time"

	"aicplan/cudaops/worker"
)

// sampleEvery is the minimum interval between sample events of a worker. They are for watching a run;
// the rows are in the journal.
const sampleEvery = 5 * time.Second

// slotSample is the sampling state of a worker.
type slotSample struct {
	at    time.Time // time of its last sample event
	cases int       // finished cases, including failed ones
}

// sampled emits an event with the metrics of a row and the number of cases that the worker has finished,
// at most once per sampleEvery and worker.
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

	fields := map[string]any{"worker": o.Slot, "cases": s.cases, "case_id": o.Task.Case.ID, "op": o.Task.Case.Op,
		"params": o.Task.Case.Params, "metrics": metrics}

	if o.Hello != nil && o.Hello.DeviceUUID != "" {
		fields["device_uuid"] = o.Hello.DeviceUUID
	}

	r.rc.Events.Emit(r.rc.Address, "sample", fields)
}
