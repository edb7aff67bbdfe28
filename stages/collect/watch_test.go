package collect

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/telemetry"
)

func TestGPUsOfACase(t *testing.T) {
	t.Parallel()
	ranks := &worker.Hello{DeviceUUID: "GPU-a", Env: map[string]string{"gpu_uuids": "GPU-a GPU-b GPU-c"}}
	for _, c := range []struct {
		name   string
		hello  *worker.Hello
		params string
		want   []string
	}{
		{name: "a worker's own", hello: &worker.Hello{DeviceUUID: "GPU-a"}, params: `{"num_gpus": 8}`,
			want: []string{"GPU-a"}},
		{name: "as many as ranks", hello: ranks, params: `{"num_gpus": 2}`, want: []string{"GPU-a", "GPU-b"}},
		{name: "ranks of other nodes too", hello: ranks, params: `{"num_gpus": 6}`,
			want: []string{"GPU-a", "GPU-b", "GPU-c"}},
		{name: "as many as a model is split by", hello: ranks, params: `{"tensor_parallel_size": 2}`,
			want: []string{"GPU-a", "GPU-b"}},
		{name: "in two ways", hello: ranks, params: `{"tensor_parallel_size": 1, "pipeline_parallel_size": 2}`,
			want: []string{"GPU-a", "GPU-b"}},
		{name: "no ranks", hello: ranks, params: `{"size": 1}`, want: []string{"GPU-a", "GPU-b", "GPU-c"}},
		{name: "no GPU", hello: &worker.Hello{}, params: `{}`},
		{name: "nobody had it", params: `{}`},
	} {
		o := &worker.Outcome{Hello: c.hello, Task: &worker.Task{Case: worker.Case{Params: json.RawMessage(c.params)}}}
		if got := gpusOf(o); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestTelemetryUsesGPUsOfRow checks that a row that names GPUs gets their telemetry instead of the
// worker's.
func TestTelemetryUsesGPUsOfRow(t *testing.T) {
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	synctest.Test(t, func(t *testing.T) {
		cfg, err := telemetry.Parse(&stage.Service{
			Kind: "telemetry", Name: "g", Address: "telemetry.g", Dir: ".",
			Options: map[string]cty.Value{"defaults": cty.False, "interval": cty.StringVal("100ms")},
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		api := &cudatest.NVML{}
		for i := range 3 {
			d := cudatest.H200(i)
			d.Now, d.Step = func() time.Duration { return time.Since(begin) }, time.Nanosecond
			api.GPUs = append(api.GPUs, d)
		}
		w, err := telemetry.Start(t.Context(), cfg, func() (nvml.API, error) { return api, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		time.Sleep(time.Second)
		uuid := func(i int) string { return api.GPUs[i].ID.UUID }
		o := &worker.Outcome{
			Started: begin, Ended: time.Now(), Hello: &worker.Hello{DeviceUUID: uuid(0)}, Task: &worker.Task{},
			Rows: []worker.Row{{telemetry.GPUs: uuid(1) + " " + uuid(2)}, {}},
		}
		r := &running{rc: &stage.RunContext{Store: store}, watching: w}
		r.observe(o)
		for i, want := range []json.Number{"2", "1"} {
			if got := o.Rows[i]["telemetry_gpus"]; got != want {
				t.Errorf("row %d counts %v GPUs, want %s", i, got, want)
			}
		}
	})
}
