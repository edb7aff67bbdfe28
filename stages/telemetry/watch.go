package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/telemetry"
	"aicplan/cudaops/worker"
	"aicplan/sink/perf"
	"aicplan/stages/runtimes"
)

// Columns of a worker's rows that state the window of the case, in Unix
// nanoseconds: what was measured, without warm-up.
const (
	WindowStart = "window_start_ns"
	WindowEnd   = "window_end_ns"
)

// GPUs is the column of a worker's rows that names the GPUs that were given to the
// case: UUIDs, with a space between.
const GPUs = "gpu_uuids"

// Watch is telemetry that runs during a collect.
type Watch struct {
	rec  *telemetry.Recorder
	api  nvml.API
	told map[string]bool // sources that the user was told of
	// hidden are UUIDs of GPUs of this machine that CUDA_VISIBLE_DEVICES hides, in
	// lower case.
	hidden map[string]bool
}

// Start begins to watch. openNVML may be nil where no driver is to be asked. An
// error means that no source reports a GPU and the block requires one.
func Start(ctx context.Context, c *Config, openNVML func() (nvml.API, error)) (*Watch, error) {
	w := &Watch{told: map[string]bool{}, hidden: map[string]bool{}}
	var defaults, named []telemetry.Source
	if c.nvml && openNVML != nil {
		if api, err := openNVML(); err == nil {
			w.api = api
			all, _ := nvml.Identities(api) // a source that fails says so itself
			for _, d := range runtimes.Hidden(all) {
				w.hidden[strings.ToLower(d.UUID)] = true
			}

			host, err := os.Hostname()
			if err != nil {
				host = "localhost"
			}

			defaults = append(defaults, telemetry.NewNVML(api, host))
		}
	}

	for i, u := range append(slices.Clone(c.defaults), c.endpoints...) {
		src, err := telemetry.NewExporter(u, c.options.Set, nil)
		if err != nil {
			return nil, err
		}

		if i < len(c.defaults) {
			defaults = append(defaults, src)
		} else {
			named = append(named, src)
		}
	}

	w.rec = telemetry.Start(ctx, c.options, defaults, named)
	if c.Required && !slices.ContainsFunc(w.rec.Sources(), func(s telemetry.Status) bool { return s.OK }) {
		text := w.silence()
		w.Stop()
		return nil, fmt.Errorf("%s is required and no source reports a GPU%s", c.Address, text)
	}

	return w, nil
}

// silence says why the user's sources are silent.
func (w *Watch) silence() string {
	var out []string
	for _, s := range w.rec.Sources() {
		for reason := range s.Errors {
			out = append(out, s.Name+": "+reason)
			break
		}
	}

	if len(out) == 0 {
		return ": there is no NVIDIA driver here and no exporter on localhost:9400 or 9401; name one in endpoints"
	}
	return ": " + strings.Join(out, "; ")
}

// Stop ends the watching.
func (w *Watch) Stop() {
	w.rec.Stop()
	if w.api != nil {
		_ = w.api.Close()
	}
}

// Troubles are sources that began to fail since the last call, a line each.
func (w *Watch) Troubles() []string {
	var out []string
	for _, s := range w.rec.Sources() {
		for reason := range s.Errors {
			if key := s.Name + "\x00" + reason; !w.told[key] {
				w.told[key] = true
				out = append(out, fmt.Sprintf("telemetry: %s: %s", s.Name, reason))
			}
		}
	}

	slices.Sort(out)
	return out
}

// Mark takes a sample now, where that is worth its time: at the ends of windows
// that are longer than the interval.
func (w *Watch) Mark(ctx context.Context) { w.rec.Mark(ctx) }

// Window is the window of a case: what the row states, else from started to
// ended.
func (w *Watch) Window(row worker.Row, started, ended time.Time) *telemetry.Window {
	from, to := started, ended
	if a, ok := nanoseconds(row[WindowStart]); ok {
		if b, ok := nanoseconds(row[WindowEnd]); ok && b >= a {
			from, to = time.Unix(0, a), time.Unix(0, b)
		}
	}

	if to.Sub(from) >= w.rec.Interval() {
		// The sample behind the end tells what counters had come to.
		w.rec.Mark(context.Background())
	}

	return w.rec.Window(from, to)
}

// Of says which GPUs a row is about: those that it names itself, else those of its
// worker, else all but those that this process is not to see.
func (w *Watch) Of(row worker.Row, workers ...string) Counted {
	named := workers
	if text, ok := row[GPUs].(string); ok && strings.TrimSpace(text) != "" {
		named = strings.Fields(text)
	}
	return Counted{named: named, hidden: w.hidden}
}

// Counted are the GPUs that a row is about.
type Counted struct {
	named  []string        // UUIDs; none: all that are not hidden
	hidden map[string]bool // UUIDs in lower case
}

func (c Counted) has(g telemetry.GPU) bool {
	if len(c.named) == 0 {
		return !c.hidden[strings.ToLower(g.UUID)]
	}
	return slices.ContainsFunc(c.named, func(uuid string) bool { return strings.EqualFold(uuid, g.UUID) })
}

// File is an attachment of a case.
type File struct {
	Name, MediaType string
	Data            []byte
}

// Files are what is kept of a window, besides the columns; none where nothing was
// sampled in it.
func (w *Watch) Files(win *telemetry.Window) ([]File, error) {
	if !slices.ContainsFunc(win.GPUs, func(g *telemetry.GPUWindow) bool { return g.Samples > 1 }) {
		return nil, nil
	}

	samples := w.rec.Samples(win)
	lines, err := w.rec.Records(samples)
	if err != nil {
		return nil, err
	}

	over, err := perf.EncodeSeries(SeriesRecord(samples, w.rec.Metrics()))
	if err != nil {
		return nil, err
	}

	summary, err := json.Marshal(win.Summary())
	if err != nil {
		return nil, err
	}

	return []File{
		{SummaryName, "application/json", summary},
		{LinesName, "application/x-ndjson", lines},
		{SeriesName, perf.SeriesType, over},
	}, nil
}

// Forget drops what lies before a moment.
func (w *Watch) Forget(before time.Time) { w.rec.Forget(before) }

func nanoseconds(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil && i > 0
}
