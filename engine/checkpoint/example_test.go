package checkpoint_test

import (
	"fmt"
	"os"

	"aicplan/engine/checkpoint"
)

// A journal contains the cases that were measured under the same conditions. Append returns when the
// entry would survive a crash.
func ExampleStore_Journal() {
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	conditions := checkpoint.Context{Op: "gemm", Runtime: "cuda", Framework: "CUDA", Version: "13.0",
		Device: "NVIDIA H200"}

	measure := func() error {
		store, err := checkpoint.Open(dir, checkpoint.Options{})
		if err != nil {
			return err
		}
		defer store.Close()
		j, err := store.Journal(conditions)
		if err != nil {
			return err
		}
		for _, id := range []string{"case-1", "case-2"} {
			if _, done := j.Has(id); done {
				fmt.Println(id, "was measured before")
				continue
			}
			fmt.Println("measure", id)
			if err := j.Append(checkpoint.Entry{ID: id, Kind: checkpoint.Measured,
				Payload: []byte(`{"latency":0.04}`)}); err != nil {
				return err
			}
			break // as if the process were killed here
		}
		return nil
	}
	for range 2 {
		if err := measure(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// measure case-1
	// case-1 was measured before
	// measure case-2
}
