package collect

import (
	"encoding/json"
	"slices"
	"testing"

	"aicplan/cudaops/worker"
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
		{name: "a worker's own", hello: &worker.Hello{DeviceUUID: "GPU-a"}, params: `{"num_gpus": 8}`, want: []string{"GPU-a"}},
		{name: "as many as ranks", hello: ranks, params: `{"num_gpus": 2}`, want: []string{"GPU-a", "GPU-b"}},
		{name: "ranks of other nodes too", hello: ranks, params: `{"num_gpus": 6}`, want: []string{"GPU-a", "GPU-b", "GPU-c"}},
		{name: "as many as a model is split by", hello: ranks, params: `{"tensor_parallel_size": 2}`, want: []string{"GPU-a", "GPU-b"}},
		{name: "in two ways", hello: ranks, params: `{"tensor_parallel_size": 1, "pipeline_parallel_size": 2}`, want: []string{"GPU-a", "GPU-b"}},
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
