package slurmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestJobsAreTakenWhole: of a job whose sbatch is killed while it hands it over there
// is nothing, and of one that it has handed over there is all, though nobody hears
// the answer.
func TestJobsAreTakenWhole(t *testing.T) {
	t.Setenv("SLURMTEST_DIR", t.TempDir())
	t.Setenv("SLURMTEST_HOLD", "1")
	c, err := open()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(&job{Text: []byte("#!/bin/sh"), Indices: []int{0, 1, 2}, Options: map[string]string{"comment": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := c.control(bytes.NewReader(whole[:n]), &bytes.Buffer{}); err == nil {
			t.Fatalf("%d of %d bytes are taken for a job", n, len(whole))
		}
	}
	if tasks, err := c.read(""); err != nil || len(tasks) != 0 {
		t.Fatalf("%d tasks, %v, of a job that nobody handed over", len(tasks), err)
	}
	if err := c.control(bytes.NewReader(whole), deaf{}); err != nil {
		t.Fatal(err)
	}
	var queue strings.Builder
	if err := c.squeue(nil, &queue); err != nil {
		t.Fatal(err)
	}
	if got := queue.String(); got != "1|0|PENDING|None|c\n1|1|PENDING|None|c\n1|2|PENDING|None|c\n" {
		t.Error(got)
	}
}

type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, errors.New("nobody hears it") }
