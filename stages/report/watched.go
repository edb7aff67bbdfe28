package report

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"gonum.org/v1/gonum/floats"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/perf"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
	"aicplan/stages/telemetry"
)

// shown are the columns of a series that a report draws, by name, in the order of
// the page.
var shown = []struct{ column, name, unit string }{
	{"nvidia_power_usage_w", "GPU power", "W"},
	{"nvidia_gpu_utilization_pct", "GPU utilisation", "%"},
	{"nvidia_memory_used_gb", "GPU memory", "GB"},
	{"nvidia_sm_clock_mhz", "GPU SM clock", "MHz"},
	{"nvidia_temperature_c", "GPU temperature", "C"},
}

// mostSamples is the number of samples that are kept of one metric of one device. If there
// are more, evenly distributed ones are kept.
const mostSamples = 4000

// Read adds to in what was recorded beside the rows of its tables: telemetry and requests. The error names
// what is missing or cannot be read; the rest is there.
func Read(store *checkpoint.Store, in *model.Input) error {
	var watched, requests error
	in.Watched, watched = readWatched(store, in.Tables)
	in.Requests, requests = readRequestsOf(store, in.Tables)
	return errors.Join(watched, requests)
}

// readWatched reads what telemetry recorded during the cases of the tables. Series that
// are gone or cannot be read are left out, and named by the error.
func readWatched(store *checkpoint.Store, tables []model.TableInput) ([]model.Watched, error) {
	type key struct {
		metric int
		device string
	}

	by := map[key]*model.Watched{}
	seen := map[string]bool{}
	lost, err := eachAttachment(tables, telemetry.SeriesName, func(_ model.TableInput, _ int, a stage.Attachment) error {
		if seen[a.Digest] {
			return nil
		}

		seen[a.Digest] = true
		raw, err := store.GetBytes(a.Digest)
		if err != nil {
			return err
		}

		rec, err := perf.ReadSeries(raw)
		if err != nil {
			return err
		}

		return samples(rec, func(metric int, device string, at, value float64) {
			k := key{metric, device}
			if by[k] == nil {
				by[k] = &model.Watched{Device: device, Metric: shown[metric].name, Unit: shown[metric].unit}
			}
			by[k].At, by[k].Value = append(by[k].At, at), append(by[k].Value, value)
		})
	})
	if err != nil {
		return nil, err
	}

	keys := slices.SortedFunc(maps.Keys(by), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), strings.Compare(a.device, b.device))
	})

	out := make([]model.Watched, 0, len(keys))
	for _, k := range keys {
		out = append(out, spread(*by[k]))
	}

	return out, errors.Join(lost...)
}

// samples calls each for every value that is drawn.
func samples(rec arrow.Record, each func(metric int, device string, at, value float64)) error {
	times, err := table.Int64s(rec, perf.SeriesTime)
	devices, err2 := devicesOf(rec)
	if err := errors.Join(err, err2); err != nil {
		return err
	}

	for m, s := range shown {
		values, err := table.Float64s(rec, s.column)
		if err != nil {
			continue // no device has this metric
		}

		for row, v := range values.Values {
			if !values.Null(row) {
				each(m, devices[row], float64(times.Values[row])/1e9, v)
			}
		}
	}

	return nil
}

// devicesOf names the device of every row: host, index, MIG instance.
func devicesOf(rec arrow.Record) ([]string, error) {
	out := make([]string, rec.NumRows())
	for _, c := range []struct{ column, before string }{
		{telemetry.SeriesHostname, ""}, {telemetry.SeriesIndex, "GPU "}, {telemetry.SeriesInstance, "MIG "},
	} {
		if !table.Has(rec, c.column) {
			continue
		}

		col, err := table.Strings(rec, c.column)
		if err != nil {
			return nil, err
		}

		for row, text := range col.Values {
			if text != "" {
				out[row] = strings.TrimSpace(out[row] + " " + c.before + text)
			}
		}
	}

	return out, nil
}

// spread keeps at most mostSamples, in order of time.
func spread(w model.Watched) model.Watched {
	order := make([]int, len(w.At))
	floats.ArgsortStable(slices.Clone(w.At), order)
	n := min(len(order), mostSamples)
	at, value := make([]float64, n), make([]float64, n)
	for i := range n {
		from := order[i*len(order)/n]
		at[i], value[i] = w.At[from], w.Value[from]
	}

	w.At, w.Value = at, value
	return w
}
