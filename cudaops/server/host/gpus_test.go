package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

func TestGPUsOfAServer(t *testing.T) {
	t.Parallel()
	d := cudatest.H200(0)
	busy := cudatest.H200(1)
	busy.Mem.Used, busy.Procs = 70<<30, []nvml.Process{{PID: 4711, Memory: 70 << 30}}
	b := newBench(t, "")
	b.open = func() (nvml.API, error) { return &cudatest.NVML{Driver: "580", GPUs: []*cudatest.GPU{d, busy}}, nil }
	b.options["gpus_within"] = "1ms"
	b.options["gpus"] = []any{map[string]any{"index": 0, "uuid": d.ID.UUID, "name": "NVIDIA H200"},
		map[string]any{"index": 1, "uuid": busy.ID.UUID, "name": "NVIDIA H200"}}
	e := b.run(t, `{"tensor_parallel_size": 1}`, `{"tensor_parallel_size": 2}`, `{"tensor_parallel_size": 4}`)
	if e.rows[1] == nil || e.rows[1]["gpu_uuids"] != d.ID.UUID {
		t.Fatalf("%+v %v", e.failures, e.rows[1])
	}
	if got := b.started(t); !slices.Equal(got, []string{`tp 1, GPUs "0"`}) {
		t.Errorf("it saw %q", got)
	}
	if f := e.failures[2]; f.Class != worker.ClassResourceIssue ||
		!strings.Contains(f.Message, "GPU 1 is not free: 70.0 of 140.4 GiB are still in use after 1ms, by process 4711") {
		t.Errorf("%+v", f)
	}
	if f := e.failures[3]; f.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(f.Message, "needs 4 GPUs, and this machine offers it 2") {
		t.Errorf("%+v", f)
	}
}

// The GPUs in a row must be those visible to the server, however they were selected.
func TestRowHasTheGPUsOfItsServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		env     string // CUDA_VISIBLE_DEVICES of the runtime
		devices []int
		saw     string
		named   []int
		params  string
	}{
		{name: "no column has their number", devices: []int{1, 2}, params: `{"seq_len": 64}`, saw: "1,2", named: []int{1, 2}},
		{name: "the plan's env", devices: []int{0, 1, 2}, env: "2,1", params: `{"tensor_parallel_size": 1}`, saw: "2,1",
			named: []int{2}},
		{name: "the plan's env, by name", devices: []int{0, 1, 2}, env: cudatest.H200(1).ID.UUID,
			params: `{"tensor_parallel_size": 1}`, saw: cudatest.H200(1).ID.UUID, named: []int{1}},
		{name: "unknown", devices: []int{0, 1, 2}, env: "MIG-1", params: `{"tensor_parallel_size": 1}`, saw: "MIG-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "")
			api := &cudatest.NVML{Driver: "580", GPUs: []*cudatest.GPU{cudatest.H200(0), cudatest.H200(1), cudatest.H200(2)}}
			b.open = func() (nvml.API, error) { return api, nil }
			var gpus []any
			for _, i := range c.devices {
				gpus = append(gpus, map[string]any{"index": i, "uuid": api.GPUs[i].ID.UUID, "name": "NVIDIA H200"})
			}
			b.options["gpus"] = gpus
			if c.env != "" {
				b.env = map[string]string{"CUDA_VISIBLE_DEVICES": c.env}
			} else {
				b.options["command"] = slices.DeleteFunc(b.options["command"].([]any),
					func(a any) bool { return a == "-tp" || a == "{tensor_parallel_size}" })
			}
			e := b.run(t, c.params)
			if e.rows[1] == nil {
				t.Fatalf("%+v", e.failures)
			}
			var want []string
			for _, i := range c.named {
				want = append(want, api.GPUs[i].ID.UUID)
			}
			if got, _ := e.rows[1]["gpu_uuids"].(string); got != strings.Join(want, " ") {
				t.Errorf("the row names %q, want %q", got, want)
			}
			if got := b.started(t); !slices.Equal(got, []string{fmt.Sprintf("tp 1, GPUs %q", c.saw)}) {
				t.Errorf("it saw %q", got)
			}
		})
	}
}
