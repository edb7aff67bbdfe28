package instrument

import (
	"encoding/json"
	"testing"

	"aicplan/cudaops/worker"
)

// TestStatusThatCrossesACommand: a worker reports that it waits once more when a case arrives. If a command is
// under way to it then, it begins a case, and the instrument must neither send it another command nor measure.
func TestStatusThatCrossesACommand(t *testing.T) {
	t.Parallel()
	sent := make(chan command, 8)
	w := New(Options{}).Join(func(msg any) error {
		sent <- msg.(command)
		return nil
	})
	defer w.Close()
	ready := func(commands int) (waits bool) {
		t.Helper()
		line, err := json.Marshal(map[string]any{"type": worker.TypeMeasure, "what": "ready", "waiting": 1, "commands": commands})
		if err != nil {
			t.Fatal(err)
		}
		if waits, err = w.Receive(line); err != nil {
			t.Fatal(err)
		}
		return waits
	}
	if !ready(0) || (<-sent).What != "next" {
		t.Fatal("the worker does not begin its first case")
	}
	if ready(0) {
		t.Error("a worker counts as waiting that has a command under way")
	}
	if !ready(1) || (<-sent).What != "next" {
		t.Fatal("the worker does not begin its second case")
	}
	if len(sent) != 0 {
		t.Errorf("the worker got a further command: %+v", <-sent)
	}
}
