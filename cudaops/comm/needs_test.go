package comm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestNeeds holds what plans are checked against by what the ops say themselves.
func TestNeeds(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(Needs())), slices.Sorted(slices.Values(append([]string{OpNCCL, OpCustomAllReduce, OpP2P}, Collectives...))); !slices.Equal(got, want) {
		t.Fatalf("the ops are %v, Needs has %v", want, got)
	}
	sample := map[string]any{
		"op_name": AllReduce, "nccl_dtype": "half", "allreduce_dtype": "half", "num_gpus": 2, "message_size": 64,
		"src": 0, "dst": 1, "bytes": 64,
	}
	run := func(op string, needs []string, without string) error {
		params := map[string]any{}
		for _, n := range needs {
			if n != without {
				params[n] = sample[n]
			}
		}
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		h := &host{} // no GPU: cases that are whole end at that
		c := worker.Case{Op: op, Params: raw}
		if op == OpP2P {
			_, err = h.p2p(t.Context(), parseParams(c))
		} else {
			_, err = h.visitor(c)
		}
		return err
	}
	for op, needs := range Needs() {
		if err := run(op, needs, ""); err == nil || strings.Contains(err.Error(), "is missing") {
			t.Errorf("%s with all of %v: %v", op, needs, err)
		}
		for _, name := range needs {
			if err := run(op, needs, name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("parameter %q is missing", name)) {
				t.Errorf("%s without %s: %v", op, name, err)
			}
		}
	}
}
