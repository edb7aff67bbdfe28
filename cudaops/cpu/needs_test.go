package cpu

import (
	"context"
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
	sample := map[string]any{"gemm_dtype": "float32", "m": 1, "n": 1, "k": 1, "kernel": "copy", "size_bytes": 8}
	h := newHost(t, map[string]any{"synthetic": true})
	hello, err := h.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ops := slices.Sorted(maps.Keys(Needs())); !slices.Equal(ops, hello.Ops) {
		t.Fatalf("the ops are %v, Needs has %v", hello.Ops, ops)
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
		_, err = h.Run(context.Background(), worker.Case{Op: op, Params: raw})
		return err
	}
	for op, needs := range Needs() {
		if err := run(op, needs, ""); err != nil {
			t.Errorf("%s with all of %v: %v", op, needs, err)
		}
		for _, name := range needs {
			if err := run(op, needs, name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("parameter %q is missing", name)) {
				t.Errorf("%s without %s: %v", op, name, err)
			}
		}
	}
	for op, words := range Words() {
		for name, list := range words {
			before := sample[name]
			for _, w := range append(slices.Clone(list), "fp9") {
				sample[name] = w
				if err := run(op, Needs()[op], ""); (err == nil) != (w != "fp9") {
					t.Errorf("%s with %s = %q: %v", op, name, w, err)
				}
			}
			sample[name] = before
		}
	}
}
