package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/telemetry"
	"aicplan/cudaops/worker"
	"aicplan/sink/perf"
)

// Columns of a worker's rows with the window of the case and that of its warm-up, in nanoseconds since the Unix epoch.
// The last repeat of a load is from RepeatStart to WindowEnd.
const (
	WindowStart = "window_start_ns"
	WindowEnd   = "window_end_ns"
	WarmupStart = "warmup_start_ns"
	WarmupEnd   = "warmup_end_ns"
	RepeatStart = "repeat_start_ns"
)

// GPUs is the column of a worker's rows with the UUIDs of the case's GPUs, separated by spaces.
const GPUs = "gpu_uuids"

// Watch is the telemetry of a running collect.
type Watch struct {
	rec  *telemetry.Recorder
	told map[string]bool // reported errors of sources

	// hidden are the UUIDs in lower case of GPUs of this machine that CUDA_VISIBLE_DEVICES hides.
	hidden map[string]bool
}

// Start starts the telemetry. openNVML may be nil to leave the driver out. It returns an error if the block requires a
// GPU and no source reports one.
func Start(ctx context.Context, c *Config, openNVML func() (nvml.API, error)) (*Watch, error) {
	w := &Watch{told: map[string]bool{}, hidden: map[string]bool{}}
	var defaults, named []telemetry.Source
	if c.nvml && openNVML != nil {
		if api, err := openNVML(); err == nil {
			all, _ := nvml.Identities(api) // the source reports its errors itself
			for _, d := range nvml.Hidden(all) {
				w.hidden[strings.ToLower(d.UUID)] = true
			}

			host, err := os.Hostname()
			if err != nil {
				host = "localhost"
			}

			defaults = append(defaults, telemetry.NewNVML(api, host))
		}
	}

	for i, u := range c.endpoints {
		src, err := telemetry.NewExporter(u, c.options.Set)
		if err != nil {
			return nil, err
		}

		if i < c.defaults {
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

// silence describes why no source reports a GPU.
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

// Stop ends the telemetry.
func (w *Watch) Stop() { w.rec.Stop() }

// Troubles returns a line for each new kind of error of a source since the last call.
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

// Window returns the window of a case: that of the row's columns, else from started to ended.
func (w *Watch) Window(row worker.Row, started, ended time.Time) *telemetry.Window {
	from, to, ok := span(row, WindowStart, WindowEnd)
	if !ok {
		from, to = started, ended
	}

	if to.Sub(from) >= w.rec.Interval() {
		w.rec.Mark(context.Background()) // counters are read after the end of the window
	}

	return w.rec.Window(from, to)
}

// span returns the time between two columns of a row.
func span(row worker.Row, start, end string) (from, to time.Time, ok bool) {
	a, okA := nanoseconds(row[start])
	b, okB := nanoseconds(row[end])
	return time.Unix(0, a), time.Unix(0, b), okA && okB && b >= a
}

// Of returns the GPUs of a row: those that it names, else those of its worker, else all except hidden ones.
func (w *Watch) Of(row worker.Row, workers ...string) Counted {
	named := workers
	if text, ok := row[GPUs].(string); ok && strings.TrimSpace(text) != "" {
		named = strings.Fields(text)
	}
	return Counted{named: named, hidden: w.hidden}
}

// Counted are the GPUs of a row.
type Counted struct {
	named  []string        // UUIDs; if empty, all GPUs that are not hidden
	hidden map[string]bool // UUIDs in lower case
}

func (c Counted) has(g telemetry.GPU) bool {
	if len(c.named) == 0 {
		return !c.hidden[strings.ToLower(g.UUID)]
	}
	return slices.ContainsFunc(c.named, func(uuid string) bool { return strings.EqualFold(uuid, g.UUID) })
}

// Files returns the attachments of a row: the statistics of its window, and its samples if there are several. It
// returns none for a window without samples, unless the user named a source. If the load is repeated, they are those
// of the last repeat, like its other files.
func (w *Watch) Files(row worker.Row, win *telemetry.Window, of Counted) ([]worker.Attachment, error) {
	columns := row
	if from, to, ok := span(row, RepeatStart, WindowEnd); ok {
		win = w.rec.Window(from, to)
		columns = Columns(win, of)
	}

	sampled := slices.ContainsFunc(win.GPUs, func(g *telemetry.GPUWindow) bool { return g.Samples > 1 })
	if !sampled && !slices.ContainsFunc(win.Sources, func(s telemetry.Status) bool { return !s.Default }) {
		return nil, nil
	}

	sum := win.Summary()
	sum.Power, sum.Energy = columns["gpu_power_w"], columns["gpu_energy_j"]
	summary, err := json.Marshal(sum)
	if err != nil {
		return nil, err
	}

	out := []worker.Attachment{{Name: SummaryName, MediaType: "application/json", Data: summary}}
	if !sampled {
		return out, nil
	}

	samples := w.rec.Samples(win)
	phases, err := w.phases(row, win)
	lines, err2 := w.rec.Records(samples)
	over, err3 := perf.EncodeSeries(SeriesRecord(samples, w.rec.Metrics()))
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, err
	}

	return append(append(out, phases...),
		worker.Attachment{Name: LinesName, MediaType: "application/x-ndjson", Data: lines},
		worker.Attachment{Name: SeriesName, MediaType: perf.SeriesType, Data: over}), nil
}

// phases returns AIPerf's statistics of single phases. There are none without a warm-up.
func (w *Watch) phases(row worker.Row, win *telemetry.Window) ([]worker.Attachment, error) {
	from, to, ok := span(row, WarmupStart, WarmupEnd)
	if !ok {
		return nil, nil
	}

	var out []worker.Attachment
	for i, p := range []struct {
		name string
		win  *telemetry.Window
	}{{aiperf.Warmup, w.rec.Window(from, to)}, {aiperf.Profiling, win}} {
		phase := map[string]any{"phase_index": i, "phase_name": p.name, "phase_kind": p.name,
			"start_ns": p.win.From.UnixNano(), "end_ns": p.win.To.UnixNano(), "was_cancelled": false}
		if p.name == aiperf.Profiling {
			phase["profiling_index"] = 0
		}

		raw, err := json.MarshalIndent(map[string]any{"schema_version": 1, "phase": phase, "data": p.win.Summary(),
			"warnings": []string{}}, "", "  ")
		if err != nil {
			return nil, err
		}
		out = append(out, worker.Attachment{Name: aiperf.PhaseFile(p.name, SummaryName), MediaType: "application/json",
			Data: raw})
	}
	return out, nil
}

// Forget drops samples before a time.
func (w *Watch) Forget(before time.Time) { w.rec.Forget(before) }

func nanoseconds(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil && i > 0
}
