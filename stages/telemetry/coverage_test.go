package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/telemetry"
	"aicplan/cudaops/worker"
)

// exporter is a scripted source of a GPU that draws 500 W. reads returns the age of the readings, and whether the
// exporter responds at all.
type exporter struct {
	begin  time.Time
	uuid   string
	slices []string
	reads  func(at time.Duration) (age time.Duration, ok bool)
	takes  time.Duration
	counts time.Duration // how long the energy counter changes; 0 means always
}

func (e exporter) Name() string { return "http://" + e.uuid + ":9400/metrics" }

func (e exporter) Scrape(ctx context.Context) (telemetry.Page, error) {
	select {
	case <-time.After(e.takes):
	case <-ctx.Done():
		return telemetry.Page{}, ctx.Err()
	}

	at := time.Since(e.begin)
	age, ok := e.reads(at)
	if !ok {
		<-ctx.Done()
		return telemetry.Page{}, ctx.Err()
	}

	counted := at - age
	if e.counts > 0 {
		counted = min(counted, e.counts)
	}
	var p telemetry.Page
	for _, id := range e.slices {
		used := 10.0
		if id == "" && len(e.slices) > 1 {
			used *= float64(len(e.slices) - 1) // by all slices
		}
		p.Readings = append(p.Readings, telemetry.Reading{GPU: telemetry.GPU{Index: "0", UUID: e.uuid, InstanceID: id},
			Values: map[string]float64{telemetry.Power: 500, telemetry.Energy: 500 * counted.Seconds(),
				telemetry.Temperature: (at - age).Seconds(), telemetry.MemoryUsed: used}})
	}
	return p, nil
}

// monitored returns the columns of a window of 8 s that begins 2 s after the start of a source.
func monitored(t *testing.T, e exporter) (row worker.Row) {
	synctest.Test(t, func(t *testing.T) {
		e.begin, e.uuid = time.Now(), "GPU-1"
		if e.slices == nil {
			e.slices = []string{""}
		}

		w := &Watch{told: map[string]bool{}, rec: telemetry.Start(t.Context(), telemetry.Options{}, nil,
			[]telemetry.Source{e})}
		defer w.rec.Stop()
		time.Sleep(2 * time.Second)
		from := time.Now()
		time.Sleep(8 * time.Second)
		row = Columns(w.Window(worker.Row{}, from, time.Now()), w.Of(worker.Row{}))
		row["output_tokens"] = json.Number("1000")
		PerWork(row)
	})
	return row
}

// TestEnergyOfAnUncoveredWindow checks that power and energy are null if the source did not report them for the
// whole window, and that they are right if it did.
func TestEnergyOfAnUncoveredWindow(t *testing.T) {
	fresh := func(time.Duration) (time.Duration, bool) { return 0, true }
	for _, c := range []struct {
		name           string
		e              exporter
		known, counted bool // all columns; those of the energy counter
	}{
		{"steady", exporter{reads: fresh}, true, true},
		{"slow", exporter{reads: fresh, takes: 1200 * time.Millisecond}, true, true},
		{"hangs", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return 0, at < 5*time.Second
		}}, false, false},
		{"is late", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return 0, at > 5*time.Second
		}}, false, false},
		{"refreshes every second", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return at % time.Second, true
		}}, true, true},
		{"breaks at the end", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return 0, at < 9*time.Second
		}}, true, true},
		{"refreshes every second and later", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return (at + 200*time.Millisecond) % time.Second, true
		}}, true, true},
		{"refreshes every 30 s", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return at % (30 * time.Second), true
		}}, false, false},
		{"pauses", exporter{reads: func(at time.Duration) (time.Duration, bool) {
			return 0, at < 4*time.Second || at > 7*time.Second
		}}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := monitored(t, c.e)
			for column, want := range map[string]float64{
				"gpu_power_w": 500, "gpu_energy_j": 4000, "gpu_energy_by_power_j": 4000, "energy_per_output_token_j": 4,
			} {
				n, have := row[column].(json.Number)
				known := c.known
				if column == "gpu_energy_j" || column == "energy_per_output_token_j" {
					known = c.counted
				}
				if have != known {
					t.Errorf("%s is %v; it is known: %v", column, row[column], known)
				}
				if v, _ := n.Float64(); known && !(v > 0.95*want && v < 1.05*want) {
					t.Errorf("%s is %v, want about %v", column, n, want)
				}
			}
			if fmt.Sprint(row["telemetry_stale"]) != fmt.Sprint(strings.HasSuffix(c.name, "30 s")) {
				t.Errorf("telemetry_stale is %v", row["telemetry_stale"])
			}
		})
	}
}

// TestMeansOverGPUs checks that a mean is null, and not that of the other GPUs, if one of them has no mean.
func TestMeansOverGPUs(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var sources []telemetry.Source
			for _, uuid := range []string{"GPU-1", "GPU-2"} {
				sources = append(sources, exporter{begin: time.Now(), uuid: uuid, slices: []string{""},
					reads: func(at time.Duration) (time.Duration, bool) {
						return 0, !lost || uuid == "GPU-1" || at < 4*time.Second
					}})
			}
			w := &Watch{told: map[string]bool{}, rec: telemetry.Start(t.Context(), telemetry.Options{}, nil, sources)}
			defer w.rec.Stop()
			from := time.Now()
			time.Sleep(8 * time.Second)
			row := Columns(w.Window(worker.Row{}, from, time.Now()), w.Of(worker.Row{}))
			if known := row["gpu_temperature_c"] != nil; known == lost {
				t.Errorf("the second GPU is lost: %v; the temperature is %v", lost, row["gpu_temperature_c"])
			}
		})
	}
}

// TestEnergyOfACounterThatStops checks that the energy is null, and not 0 or that of a short time, if the counter does
// not change while other readings do.
func TestEnergyOfACounterThatStops(t *testing.T) {
	for _, counts := range []time.Duration{time.Second, 4 * time.Second} {
		row := monitored(t, exporter{counts: counts, reads: func(time.Duration) (time.Duration, bool) { return 0, true }})
		for _, column := range []string{"gpu_energy_j", "energy_per_output_token_j"} {
			if v, ok := row[column]; ok {
				t.Errorf("changes for %v: %s is %v", counts, column, v)
			}
		}
		if row["gpu_energy_by_power_j"] != json.Number("4000") || row["telemetry_stale"] != false {
			t.Errorf("changes for %v: %v", counts, row)
		}
	}
}

// TestEnergyIsUnknownIfAnExporterIsSilent checks that the energy of the GPUs that responded is not that of all.
func TestEnergyIsUnknownIfAnExporterIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		source := func(name string, until time.Duration) telemetry.Source {
			return exporter{begin: begin, uuid: "GPU-" + name, slices: []string{""},
				reads: func(at time.Duration) (time.Duration, bool) { return 0, at < until }}
		}
		w := &Watch{told: map[string]bool{}, rec: telemetry.Start(t.Context(), telemetry.Options{}, nil,
			[]telemetry.Source{source("A", time.Minute), source("B", time.Second)})}
		defer w.rec.Stop()
		time.Sleep(2 * time.Second)
		from := time.Now()
		time.Sleep(8 * time.Second)
		win := w.Window(worker.Row{}, from, time.Now())
		row := Columns(win, w.Of(worker.Row{}))
		if row["telemetry_gpus"] != json.Number("1") || row["gpu_energy_j"] != nil || row["gpu_power_w"] != nil {
			t.Errorf("%v", row)
		}
		if row := Columns(win, w.Of(worker.Row{}, "GPU-A")); row["gpu_energy_j"] != json.Number("4000") {
			t.Errorf("of the GPU that responded: %v", row)
		}
		if why := win.Summary().Incomplete; len(why) != 1 ||
			why[0] != "GPU 0 of http://GPU-B:9400/metrics: no sample in the window" {
			t.Errorf("%q", why)
		}
	})
}

// TestSlicesShareThePowerOfTheirGPU checks that the power which every MIG slice repeats is counted once, and that the
// memory of the slices is added up, also if the exporter reports the GPU beside them.
func TestSlicesShareThePowerOfTheirGPU(t *testing.T) {
	for count, ids := range map[json.Number][]string{"3": {"3", "4", "5"}, "4": {"", "3", "4", "5"}} {
		row := monitored(t, exporter{slices: ids, reads: func(time.Duration) (time.Duration, bool) { return 0, true }})
		for column, want := range map[string]json.Number{
			"telemetry_gpus": count, "gpu_power_w": "500", "gpu_energy_j": "4000", "gpu_energy_by_power_j": "4000",
			"gpu_memory_gb": "30",
		} {
			if row[column] != want {
				t.Errorf("%q: %s is %v, want %s", ids, column, row[column], want)
			}
		}
	}
}

// useless is a source that responds with something other than metrics, cut at a different place each time.
type useless struct{ err error }

func (u useless) Name() string { return "http://node:9400/metrics" }
func (u useless) Scrape(context.Context) (telemetry.Page, error) {
	return telemetry.Page{}, u.err
}

// TestNamedSourceThatFailsIsInTheSummary checks that the files name a source of the user which never reported a GPU.
func TestNamedSourceThatFailsIsInTheSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Watch{told: map[string]bool{}, rec: telemetry.Start(t.Context(), telemetry.Options{}, nil,
			[]telemetry.Source{useless{fmt.Errorf("it responds with JSON: %w", telemetry.ErrUseless)}})}
		defer w.rec.Stop()
		from := time.Now()
		time.Sleep(time.Second)
		win := w.Window(worker.Row{}, from, time.Now())
		files, err := w.Files(worker.Row{}, win, Counted{})
		if err != nil || len(files) != 1 || files[0].Name != SummaryName {
			t.Fatalf("%v, %v", files, err)
		}

		var sum telemetry.Summary
		if err := json.Unmarshal(files[0].Data, &sum); err != nil {
			t.Fatal(err)
		}
		if len(sum.Summary.Configured) != 1 || len(sum.Summary.Successful) != 0 || len(sum.Errors) != 1 ||
			!strings.Contains(sum.Errors[0].Error, "it responds with JSON") {
			t.Errorf("%s", files[0].Data)
		}
	})
}
