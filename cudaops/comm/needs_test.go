package comm

import (
	"encoding/json"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// TestNeeds compares the declared parameters with those that the ops require.
func TestNeeds(t *testing.T) {
	t.Parallel()
	sample := map[string]any{
		"op_name": AllReduce, "nccl_dtype": "half", "num_gpus": 2, "message_size": 64,
		"src": 0, "dst": 1, "bytes": 64,
	}
	for _, c := range testutil.Trials(t, append([]string{OpNCCL, OpP2P}, Collectives...), Needs(), sample) {
		raw, err := json.Marshal(c.Params)
		if err != nil {
			t.Fatal(err)
		}
		h := &host{group: &group{}}
		one := worker.Case{Op: c.Op, Params: raw}
		if c.Op == OpP2P {
			_, err = h.p2p(t.Context(), worker.ParseParams(one))
		} else {
			_, err = h.visitor(one)
		}
		if err == nil {
			t.Fatalf("%s: a case ran without a GPU", c.Op)
		}
		c.Check(t, err.Error())
	}
}
