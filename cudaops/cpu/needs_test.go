package cpu

import (
	"encoding/json"
	"slices"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// TestNeeds compares the declared parameters with those that the ops require.
func TestNeeds(t *testing.T) {
	t.Parallel()
	sample := map[string]any{"gemm_dtype": "float32", "m": 1, "n": 1, "k": 1, "kernel": "copy", "size_bytes": 8}
	h := newHost(t, map[string]any{"synthetic": true})
	hello, err := h.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := func(op string, params map[string]any) string {
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = h.Run(t.Context(), worker.Case{Op: op, Params: raw}); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, c := range testutil.Trials(t, hello.Ops, Needs(), sample) {
		message := run(c.Op, c.Params)
		c.Check(t, message)
		if c.Without != "" {
			continue
		}
		if message != "" {
			t.Errorf("%s with all of %v: %s", c.Op, c.Params, message)
		}
		for name, list := range Words()[c.Op] {
			before := c.Params[name]
			for _, w := range append(slices.Clone(list), "fp9") {
				c.Params[name] = w
				if message := run(c.Op, c.Params); (message == "") != (w != "fp9") {
					t.Errorf("%s with %s = %q: %s", c.Op, name, w, message)
				}
			}
			c.Params[name] = before
		}
	}
}
