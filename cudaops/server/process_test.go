package server

import (
	"io"
	"os"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// TestLastWordsAfterAPause: what a server printed before its end is kept, also where
// this process was stopped until the time to read it was over.
func TestLastWordsAfterAPause(t *testing.T) {
	t.Parallel()
	r, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer held.Close() // by a process that is stuck in the kernel
	const said = "RuntimeError: the weights are broken\n"
	if _, err := io.WriteString(held, said); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	log := NewLog(nil)
	worker.Hear(r, log)
	if got := string(log.Text()); got != said {
		t.Errorf("heard %q", got)
	}
}
