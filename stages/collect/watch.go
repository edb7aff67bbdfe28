package collect

import (
	"context"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
	"aicplan/stages/telemetry"
)

// openNVML is replaced in tests.
var openNVML = nvml.Open

// watch starts the collect's telemetry; the function that it returns ends it.
func (r *running) watch(ctx context.Context) (stop func(), err error) {
	if r.watched == nil {
		return func() {}, nil
	}
	if r.watching, err = telemetry.Start(ctx, r.watched, openNVML); err != nil {
		return nil, err
	}
	r.troubles()
	return func() {
		r.troubles()
		r.watching.Stop()
		r.watching = nil
	}, nil
}

func (r *running) troubles() {
	for _, line := range r.watching.Troubles() {
		r.rc.Events.Message(r.rc.Address, "warn", line)
	}
}

// observe adds to the rows of a case what was seen while it ran. A worker that
// has a GPU of its own is held against that one, every other against all.
func (r *running) observe(o *worker.Outcome) {
	if o.Failure != nil && len(o.Rows) == 0 {
		return
	}
	uuid := ""
	if o.Hello != nil {
		uuid = o.Hello.DeviceUUID
	}
	for _, row := range o.Rows {
		for name, v := range telemetry.Columns(r.watching.Window(row, o.Started, o.Ended), uuid) {
			if _, own := row[name]; !own {
				row[name] = v
			}
		}
		telemetry.PerWork(row)
	}
	r.troubles()
	// Cases that are still out began after the oldest of those that may be out.
	r.watching.Forget(o.Ended.Add(-keepTelemetry))
}

// keepTelemetry is how long samples are kept: longer than a load point takes.
const keepTelemetry = 2 * time.Hour
