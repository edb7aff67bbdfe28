package collect

import (
	"slices"
	"testing"

	"aicplan/cudaops/worker"
)

// A server on one of a machine's GPUs: the idle ones beside it are not its.
func TestDevicesOfRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row   worker.Row
		hello *worker.Hello
		want  []string
	}{
		{worker.Row{"gpu_uuids": "GPU-a"}, &worker.Hello{}, []string{"GPU-a"}},
		{worker.Row{"gpu_uuids": "GPU-a GPU-b"}, &worker.Hello{DeviceUUID: "GPU-c"}, []string{"GPU-a", "GPU-b"}},
		{worker.Row{"gpu_uuids": ""}, &worker.Hello{DeviceUUID: "GPU-c"}, []string{"GPU-c"}},
		{worker.Row{"gpu_uuids": nil}, &worker.Hello{}, nil},
		{worker.Row{}, nil, nil},
	} {
		if got := devices(c.row, c.hello); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.row, got, c.want)
		}
	}
}
