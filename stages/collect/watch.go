package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
	"aicplan/stages/telemetry"
)

// openNVML is replaced in tests.
var openNVML = nvml.Open

// watch starts the collect's telemetry and returns a function that stops it.
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

// gpusOf returns the GPUs that a case used. For a worker with one GPU that is the GPU itself. For a
// worker that starts ranks on several GPUs it is one GPU for each rank of the case, from num_gpus or
// from the product of the parallel sizes.
func gpusOf(o *worker.Outcome) []string {
	if o.Hello == nil {
		return nil
	}

	if several := strings.Fields(o.Hello.Env[telemetry.GPUs]); len(several) > 0 {
		var p struct {
			Ranks    int `json:"num_gpus"`
			Tensor   int `json:"tensor_parallel_size"`
			Pipeline int `json:"pipeline_parallel_size"`
			Data     int `json:"data_parallel_size"`
		}

		if o.Task != nil && json.Unmarshal(o.Task.Case.Params, &p) == nil {
			if p.Ranks <= 0 && max(p.Tensor, p.Pipeline, p.Data) > 0 {
				p.Ranks = max(p.Tensor, 1) * max(p.Pipeline, 1) * max(p.Data, 1)
			}
			if p.Ranks > 0 {
				several = several[:min(p.Ranks, len(several))]
			}
		}

		return several
	}

	if o.Hello.DeviceUUID == "" {
		return nil
	}

	return []string{o.Hello.DeviceUUID}
}

func (r *running) troubles() {
	for _, line := range r.watching.Troubles() {
		r.message("warn", "%s", line)
	}
}

// observe adds the telemetry of the GPUs that a case used to the rows of the case. It returns the attachments with the
// samples.
func (r *running) observe(o *worker.Outcome) (files []stage.Attachment, err error) {
	workers := gpusOf(o)
	for i, row := range o.Rows {
		win := r.watching.Window(row, o.Started, o.Ended)
		of := r.watching.Of(row, workers...)
		for name, v := range telemetry.Columns(win, of) {
			if _, own := row[name]; !own {
				row[name] = v
			}
		}
		telemetry.PerWork(row)
		if i == 0 {
			recorded, err := r.watching.Files(row, win, of)
			if err != nil {
				r.message("warn", "case %s: its telemetry is not kept: %v", o.Task.Case.ID, err)
			}
			if files, err = r.attach(worker.Outcome{Task: o.Task, Attachments: recorded}); err != nil {
				return nil, err
			}
		}
	}

	r.troubles()
	// Running cases started after the oldest sample that is kept.
	r.watching.Forget(o.Ended.Add(-keepTelemetry))
	return files, nil
}

// keepTelemetry is how long samples are kept. It exceeds the duration of a load point.
const keepTelemetry = 2 * time.Hour

// attach stores the files that a worker attached to a case. A file with an invalid name is logged as a warning and
// skipped, so that the case keeps its rows.
func (r *running) attach(o worker.Outcome) ([]stage.Attachment, error) {
	var out []stage.Attachment
	for _, a := range o.Attachments {
		if a.Name != filepath.Base(a.Name) || a.Name == "." || a.Name == ".." ||
			rows.UnfitText(a.Name) != "" || rows.UnfitText(a.MediaType) != "" {
			r.message("warn", "case %s: the attachment %q is not kept: its name is no file's name, or its media "+
				"type no text of one line", o.Task.Case.ID, a.Name)
			continue
		}

		kept, err := r.store(a, o.Spool)
		if err != nil {
			return nil, fmt.Errorf("the attachment %q of case %s: %w", a.Name, o.Task.Case.ID, err)
		}

		out = append(out, kept)
	}

	return out, nil
}

// store puts one file into the object store and removes it from the worker's spool folder.
func (r *running) store(a worker.Attachment, spool string) (stage.Attachment, error) {
	out := stage.Attachment{Name: a.Name, MediaType: a.MediaType, Bytes: int64(len(a.Data))}
	var err error
	if a.File == "" {
		out.Digest, err = r.rc.Store.PutBytes(a.Data)
		return out, err
	}

	path := filepath.Join(spool, filepath.Base(a.File))
	if out.Digest, out.Bytes, err = r.rc.Store.PutFile(path); err != nil {
		return out, err
	}

	_ = os.Remove(path) // a file left here is removed with the run's folder
	return out, nil
}
