package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/telemetry"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/perf"
	"aicplan/sink/table"
)

func block(options map[string]cty.Value) *stage.Service {
	return &stage.Service{Kind: "telemetry", Name: "g", Address: "telemetry.g", Options: options, Dir: "."}
}

func TestParse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.csv"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	for want, options := range map[string]map[string]cty.Value{
		"interval is \"1ms\"":  {"interval": cty.StringVal("1ms")},
		"interval is \"soon\"": {"interval": cty.StringVal("soon")},
		"names no host":        {"endpoints": cty.ListVal([]cty.Value{cty.StringVal("http://")})},
		"counters: open":       {"counters": cty.StringVal("none.csv")},
		"bad.csv:1:":           {"counters": cty.StringVal("bad.csv")},
		"only known after":     {"nvml": cty.UnknownVal(cty.Bool)},
	} {
		b := block(options)
		b.Dir = dir
		if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}

	c, err := Parse(block(map[string]cty.Value{"endpoints": cty.ListVal([]cty.Value{cty.StringVal("localhost:9400"),
		cty.StringVal("n1:9400")})}))
	if err != nil || c.defaults != 2 || len(c.endpoints) != 3 || c.endpoints[2] != "http://n1:9400/metrics" {
		t.Errorf("%+v %v", c, err)
	}

	if c, _ = Parse(block(map[string]cty.Value{"defaults": cty.False})); c.defaults != 0 {
		t.Errorf("%+v", c)
	}
}

// two GPUs that draw 300 W and 500 W.
func twoGPUs() *cudatest.NVML {
	begin := time.Now()
	api := &cudatest.NVML{}
	for i, watts := range []float64{300, 500} {
		d := cudatest.H200(i)
		d.Draw.Instant, d.Util.GPU = watts, 40+20*float64(i)
		d.Now, d.Step = func() time.Duration { return time.Since(begin) }, time.Nanosecond
		api.GPUs = append(api.GPUs, d)
	}

	return api
}

func TestColumns(t *testing.T) {
	t.Parallel()
	// Read outside of the bubble: Arrow keeps what unpacks them, and other bubbles must not use it.
	var files []worker.Attachment
	synctest.Test(t, func(t *testing.T) {
		c, err := Parse(block(map[string]cty.Value{"defaults": cty.False, "interval": cty.StringVal("100ms")}))
		if err != nil {
			t.Fatal(err)
		}

		w, err := Start(t.Context(), c, func() (nvml.API, error) { return twoGPUs(), nil })
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		time.Sleep(time.Second) // the case's warm-up
		from := time.Now()
		time.Sleep(2 * time.Second)
		to := time.Now()
		row := worker.Row{WindowStart: integer(int(from.UnixNano())), WindowEnd: integer(int(to.UnixNano())),
			"output_tokens": json.Number("1600"), "succeeded": json.Number("0")}
		got := Columns(w.Window(row, time.Now().Add(-time.Hour), time.Now()), w.Of(row))
		for name, want := range map[string]any{
			"telemetry_gpus": "2", "telemetry_lost": "0", "telemetry_blanks": "0", "gpu_power_w": "800",
			"gpu_power_w_max": "500",
			"gpu_power_w_p50": "400", "gpu_utilization_pct": "50", "gpu_sm_clock_mhz": "1980",
			"gpu_energy_by_power_j": "1600", "gpu_energy_j": "1600",
		} {
			if v, ok := got[name].(json.Number); !ok || string(v) != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}

		for k, v := range got {
			row[k] = v
		}

		PerWork(row)

		if row["energy_per_output_token_j"] != json.Number("1") || row["energy_per_request_j"] != nil {
			t.Errorf("%v", row)
		}

		one := Columns(w.Window(row, from, to), w.Of(row, cudatest.H200(1).ID.UUID))
		if one["telemetry_gpus"] != json.Number("1") || one["gpu_power_w"] != json.Number("500") {
			t.Errorf("%v", one)
		}

		first := cudatest.H200(0).ID.UUID
		if both := Columns(w.Window(row, from, to),
			w.Of(row, first, cudatest.H200(1).ID.UUID)); both["telemetry_gpus"] != json.Number("2") ||
			both["gpu_power_w"] != json.Number("800") {
			t.Errorf("%v", both)
		}

		// The power of one of two GPUs is not that of the case.
		if part := Columns(w.Window(row, from, to),
			w.Of(row, first, "GPU-elsewhere")); part["telemetry_gpus"] != json.Number("1") ||
			part["gpu_power_w"] != nil || part["gpu_energy_j"] != nil {
			t.Errorf("%v", part)
		}

		if files, err = w.Files(row, w.Window(row, from, to), w.Of(row)); err != nil {
			t.Fatal(err)
		}

		// A window without samples leaves nothing.
		if none, err := w.Files(row, w.Window(worker.Row{}, to.Add(time.Hour), to.Add(2*time.Hour)), w.Of(row)); err != nil ||
			none != nil {
			t.Errorf("%v %v", none, err)
		}

		// The files of a load with repeats are of the last one, and energy of its warm-ups is not that of its requests.
		row[RepeatStart], row[WarmupStart] = integer(int(to.Add(-time.Second).UnixNano())), row[WindowStart]
		delete(row, "energy_per_output_token_j")
		PerWork(row)
		last, err := w.Files(row, w.Window(row, from, to), w.Of(row))
		if err != nil || row["energy_per_output_token_j"] != nil || gjson.GetBytes(last[0].Data, "total_energy_j").Num != 800 {
			t.Errorf("%v %v %s", err, row, last[0].Data)
		}

		// A window between two scrapes has no power.
		short := Columns(w.Window(worker.Row{}, to.Add(10*time.Millisecond), to.Add(11*time.Millisecond)), w.Of(row))
		if _, ok := short["gpu_power_w"]; ok || short["telemetry_samples"] != json.Number("0") {
			t.Errorf("%v", short)
		}
	})

	checkFiles(t, files)
}

// A machine's other GPUs are no part of a row: neither those that its server was not
// given, nor those that this process is not to see.
func TestOnlyTheCasesGPUsCount(t *testing.T) {
	for _, c := range []struct {
		name, visible, row, worker string
		gpus, watts                json.Number
	}{
		{name: "all", gpus: "2", watts: "800"},
		{name: "hidden", visible: "1", gpus: "1", watts: "500"},
		{name: "hidden by name", visible: cudatest.H200(0).ID.UUID, gpus: "1", watts: "300"},
		{name: "no GPU is left", visible: "-1", gpus: "2", watts: "800"},
		{name: "given to the server", row: cudatest.H200(0).ID.UUID, gpus: "1", watts: "300"},
		{name: "given to the server of all", row: cudatest.H200(1).ID.UUID + " " + cudatest.H200(0).ID.UUID,
			gpus: "2", watts: "800"},
		{name: "given to the server, and hidden from us", visible: "1", row: cudatest.H200(0).ID.UUID, gpus: "1",
			watts: "300"},
		{name: "the worker's own", visible: "0", worker: strings.ToLower(cudatest.H200(1).ID.UUID), gpus: "1", watts: "500"},
		{name: "the row knows better than the worker", row: cudatest.H200(0).ID.UUID,
			worker: cudatest.H200(1).ID.UUID, gpus: "1", watts: "300"},
		{name: "of another machine", row: "GPU-elsewhere", gpus: "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.visible != "" {
				t.Setenv("CUDA_VISIBLE_DEVICES", c.visible)
			} else if err := os.Unsetenv("CUDA_VISIBLE_DEVICES"); err != nil {
				t.Fatal(err)
			}

			synctest.Test(t, func(t *testing.T) {
				cfg, err := Parse(block(map[string]cty.Value{"defaults": cty.False, "interval": cty.StringVal("100ms")}))
				if err != nil {
					t.Fatal(err)
				}

				w, err := Start(t.Context(), cfg, func() (nvml.API, error) { return twoGPUs(), nil })
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				from := time.Now()
				time.Sleep(time.Second)

				row := worker.Row{}
				if c.row != "" {
					row[GPUs] = c.row
				}

				var workers []string
				if c.worker != "" {
					workers = []string{c.worker}
				}

				got := Columns(w.Window(row, from, time.Now()), w.Of(row, workers...))
				if got["telemetry_gpus"] != c.gpus {
					t.Errorf("%v GPUs count, want %s", got["telemetry_gpus"], c.gpus)
				}

				if c.watts == "" {
					if got["gpu_power_w"] != nil {
						t.Errorf("%v", got)
					}
				} else if got["gpu_power_w"] != c.watts || got["gpu_energy_j"] != c.watts {
					t.Errorf("%v W and %v J in a second, want %s", got["gpu_power_w"], got["gpu_energy_j"], c.watts)
				}
			})
		})
	}
}

// checkFiles: the lines and the series of a window have the same samples, each
// in its own units.
func checkFiles(t *testing.T, files []worker.Attachment) {
	t.Helper()
	byName := map[string]worker.Attachment{}
	for _, f := range files {
		byName[f.Name] = f
	}

	if len(files) != 3 || byName[SeriesName].MediaType != perf.SeriesType || !json.Valid(byName[SummaryName].Data) {
		t.Fatalf("%d files", len(files))
	}

	rec, err := perf.ReadSeries(byName[SeriesName].Data)
	if err != nil {
		t.Fatal(err)
	}

	lines := bytes.Split(bytes.TrimSpace(byName[LinesName].Data), []byte("\n"))
	if len(lines) != int(rec.NumRows()) || len(lines) < 40 {
		t.Fatalf("%d lines, %d rows", len(lines), rec.NumRows())
	}

	for i, line := range lines {
		var one telemetry.Record
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}

		row := table.Row(rec, i)
		if row[perf.SeriesTime] != one.TimestampNs || row[SeriesUUID] != one.UUID || row[SeriesSource] != one.Source ||
			row[SeriesInstance] != nil {
			t.Fatalf("%v, and the line has %s", row, line)
		}

		joules, ok := row["nvidia_energy_consumption_j"].(float64)
		if !ok || row["nvidia_power_usage_w"] != one.Data[telemetry.Power] ||
			!(math.Abs(joules/1e6-one.Data[telemetry.Energy]) <= 1e-12) {
			t.Fatalf("%v, and the line has %s", row, line)
		}
	}
}

func TestSeriesColumn(t *testing.T) {
	t.Parallel()

	for want, m := range map[string]telemetry.Metric{
		"nvidia_power_usage_w": {Name: telemetry.Power, Unit: "W"}, "nvidia_xid_errors": {Name: telemetry.XID, Unit: "code"},
		"x_gb_per_s": {Name: "x", Unit: "GB/s"}, "x_pct": {Name: "x", Unit: "%"}, "x_mhz": {Name: "x", Unit: "MHz"},
		"x": {Name: "x", Unit: "count"},
	} {
		if got := SeriesColumn(m); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()
	none := func() (nvml.API, error) { return nil, errors.New("no driver") }

	c, err := Parse(block(map[string]cty.Value{"defaults": cty.False, "required": cty.True}))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := Start(context.Background(), c, none); err == nil ||
		!strings.Contains(err.Error(), "telemetry.g is required and no source reports a GPU") {
		t.Error(err)
	}

	c.Required = false
	w, err := Start(context.Background(), c, none)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	now := time.Now()
	if got := Columns(w.Window(worker.Row{}, now, now), w.Of(worker.Row{})); len(got) != 4 ||
		got["telemetry_gpus"] != json.Number("0") {
		t.Errorf("%v", got)
	}
}
