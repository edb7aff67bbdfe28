package collect

import (
	"encoding/json"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// TestValidEntry: what encode writes is a case, and what is cut off or something
// else is none, so that it costs its case and not the stage.
func TestValidEntry(t *testing.T) {
	rows := []worker.Row{{"latency": json.Number("1.5")}}
	more := entry{Attempts: 2, Worker: "w0", Points: 1, Label: &label{Framework: "f"}, Attachments: []stage.Attachment{{Name: "n"}}}
	full, failure := more, more
	full.Rows, failure.Failure = rows, &worker.Failure{Message: "m"}
	whole := map[checkpoint.Kind][]*entry{
		checkpoint.Measured: {{Rows: rows}, &full},
		checkpoint.Failed:   {{Failure: &worker.Failure{}}, &failure},
	}
	for kind, entries := range whole {
		for _, e := range entries {
			payload, err := e.encode()
			if err != nil {
				t.Fatal(err)
			}
			if !ValidEntry(checkpoint.Entry{Kind: kind, Payload: payload}) {
				t.Errorf("%s %s is no case", kind, payload)
			}
		}
	}
	for _, text := range []string{"", "{}", "null", `{"rows":[{`, `{"rows":[{"latency":1}]`, `{"failure":{`} {
		for _, kind := range []checkpoint.Kind{checkpoint.Measured, checkpoint.Failed, checkpoint.Withdrawn} {
			if ValidEntry(checkpoint.Entry{Kind: kind, Payload: []byte(text)}) {
				t.Errorf("%s %q is a case", kind, text)
			}
		}
	}
}
