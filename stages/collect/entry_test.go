package collect

import (
	"encoding/json"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// TestDecodeEntryRefusesOtherJSON checks that decodeEntry accepts only what encode writes.
func TestDecodeEntryRefusesOtherJSON(t *testing.T) {
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
			if !valid(checkpoint.Entry{Kind: kind, Payload: payload}) {
				t.Errorf("%s %s is no case", kind, payload)
			}
		}
	}
	for _, text := range []string{
		"", "{}", "null", `{"rows":[{`, `{"rows":[{"latency":1}]`, `{"failure":{`, `{"rows":[]}`, `{"rows":[null]}`, `{"failure":null}`,
		`{"rows":[{"latency":1}],"attempts":"1"}`, `{"rows":[{"latency":1}],"attempts":1.5}`, `{"rows":[{"latency":1}],"seconds":"1"}`,
		`{"rows":[{"latency":007}]}`, `{"rows":[{"latency":1.}]}`, `{"rows":[{"latency":+1}]}`, `{"rows":[{"latency":1}],"rows":null}`,
		`{"rows":[{"latency":1}]}}`, `{"rows":[{"latency":1}],,}`, "{\"rows\":[{\"kernel_source\":\"a\nb\"}]}", `{"failure":{"message":1}}`, `{"failure":{"message":"m"}]}`,
	} {
		for _, kind := range []checkpoint.Kind{checkpoint.Measured, checkpoint.Failed, checkpoint.Withdrawn} {
			if valid(checkpoint.Entry{Kind: kind, Payload: []byte(text)}) {
				t.Errorf("%s %q is a case", kind, text)
			}
		}
	}
}

func TestRowsAndAFailure(t *testing.T) {
	e := checkpoint.Entry{Kind: checkpoint.Measured, Payload: []byte(`{"rows":[{"latency":1}],"failure":{"message":"m"}}`)}
	if valid(e) {
		t.Error("a measured case has failed")
	}
}

func valid(e checkpoint.Entry) bool {
	_, err := decodeEntry(e)
	return err == nil
}

func kindOf(e *entry) checkpoint.Kind {
	if e.Failure != nil {
		return checkpoint.Failed
	}
	return checkpoint.Measured
}
