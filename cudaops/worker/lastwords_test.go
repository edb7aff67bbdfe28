package worker

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestLastWordsAfterAPause: what lies in the pipe of a process that is gone is read,
// also where this process was stopped for longer than it waits, and a child that holds
// the pipe is not waited for.
func TestLastWordsAfterAPause(t *testing.T) {
	t.Parallel()
	r, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer held.Close()
	said := strings.Repeat("Traceback: the weights are broken\n", 300)
	if _, err := io.WriteString(held, said); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	close(gone)
	if err := r.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	u := newUntilExit(r, gone)
	u.lastWords = -time.Second // over before the pipe is looked at, as after a pause
	// Read in pieces, so that the deadline has passed before each.
	got, err := io.ReadAll(u)
	if err != nil || string(got) != said {
		t.Errorf("%d bytes of %d, %v", len(got), len(said), err)
	}
}
