package report

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	cudatelemetry "aicplan/cudaops/telemetry"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/perf"
	"aicplan/sink/table"
	"aicplan/stages/report/charts"
	"aicplan/stages/report/model"
	"aicplan/stages/telemetry"
)

// TestWatched draws what telemetry saw: a chart a metric, a series a device, MIG
// slices apart. A missing series is named, and the others are read.
func TestWatched(t *testing.T) {
	t.Parallel()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}

	const second = int64(1e9)
	begin := 1_800_000_000 * second

	var samples []cudatelemetry.Sample
	for i := range int64(3) {
		for _, instance := range []string{"1", "2"} {
			gpu := cudatelemetry.GPU{Index: "0", UUID: "GPU-a", Hostname: "n1", InstanceID: instance}
			values := map[string]float64{
				cudatelemetry.Power: 100 + float64(i), cudatelemetry.Utilization: 50, cudatelemetry.MemoryUsed: 3,
				cudatelemetry.SMClock: 1980, cudatelemetry.Temperature: 40,
			}
			if i == 1 {
				delete(values, cudatelemetry.Utilization)
			}

			samples = append(samples, cudatelemetry.Sample{At: begin + i*second, Source: "http://n1:9400/metrics",
				GPU: gpu, Values: values})
		}
	}

	raw, err := perf.EncodeSeries(telemetry.SeriesRecord(samples, cudatelemetry.Builtin()))
	if err != nil {
		t.Fatal(err)
	}

	digest, err := store.PutBytes(raw)
	if err != nil {
		t.Fatal(err)
	}

	gone := checkpoint.Digest([]byte("gone"))
	attached := func(d string) string {
		return `[{"name":"` + telemetry.SeriesName + `","media_type":"` + perf.SeriesType + `","digest":"` + d +
			`","bytes":1}]`
	}

	rec := table.NewRecord([]string{stage.AttachmentsColumn},
		[]arrow.Array{table.Texts([]string{attached(digest), attached(gone), attached(digest)}, []bool{true, true, true})})
	got, err := readWatched(store, []model.TableInput{{Address: "collect.load", Data: &stage.Dataset{Table: rec}},
		{Address: "collect.none"}})
	if err == nil || !strings.Contains(err.Error(), "collect.load") {
		t.Errorf("the series that is gone: %v", err)
	}

	if len(got) != 2*len(shown) {
		t.Fatalf("%d series: %+v", len(got), got)
	}

	w := got[0]
	if w.Device != "n1 GPU 0 MIG 1" || w.Metric != "GPU power" || w.Unit != "W" || len(w.At) != 3 ||
		w.At[2]-w.At[0] != 2 || w.Value[2] != 102 {
		t.Errorf("%+v", w)
	}

	if u := got[2]; u.Metric != "GPU utilisation" || len(u.At) != 2 {
		t.Errorf("%+v", u)
	}

	groups := charts.Draw(&model.Report{Watched: got})
	if len(groups) != 1 || len(groups[0].Charts) != len(shown) {
		t.Fatalf("%+v", groups)
	}

	if c := groups[0].Charts[0]; c.ID != "telemetry-gpu-power" || len(c.Legend) != 2 ||
		!strings.Contains(c.Body, "<path") {
		t.Errorf("%+v", c)
	}
}

// TestSpread keeps long series short, in order of time.
func TestSpread(t *testing.T) {
	t.Parallel()
	w := model.Watched{}
	for i := range 3 * mostSamples {
		w.At, w.Value = append(w.At, float64(-i)), append(w.Value, float64(i))
	}

	w = spread(w)
	if len(w.At) != mostSamples || w.At[0] != float64(1-3*mostSamples) || w.Value[0] != -w.At[0] || !(w.At[1] > w.At[0]) {
		t.Errorf("%d samples from %v", len(w.At), w.At[:2])
	}
}
