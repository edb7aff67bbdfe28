package rows

import (
	"encoding/json"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// TestDecodeEntryRefusesOtherJSON checks that Decode accepts only what encode writes.
func TestDecodeEntryRefusesOtherJSON(t *testing.T) {
	rows := []worker.Row{{"latency": json.Number("1.5")}}
	more := Entry{Attempts: 2, Worker: "w0", Points: 1, Attachments: []stage.Attachment{{Name: "n"}}}
	full, failure := more, more
	full.Rows, failure.Failure = rows, &worker.Failure{Message: "m"}
	whole := map[checkpoint.Kind][]*Entry{
		checkpoint.Measured: {{Rows: rows}, &full},
		checkpoint.Failed:   {{Failure: &worker.Failure{}}, &failure},
	}
	for kind, entries := range whole {
		for _, e := range entries {
			payload, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !valid(t, checkpoint.Entry{Kind: kind, Payload: payload}) {
				t.Errorf("%q %s is no case", kind, payload)
			}
		}
	}
	for _, text := range []string{
		"", "{}", "null", `{"rows":[{`, `{"rows":[{"latency":1}]`, `{"failure":{`, `{"rows":[]}`, `{"rows":[null]}`,
		`{"failure":null}`,
		`{"rows":[{"latency":1}],"attempts":"1"}`, `{"rows":[{"latency":1}],"attempts":1.5}`,
		`{"rows":[{"latency":1}],"seconds":"1"}`,
		`{"rows":[{"latency":007}]}`, `{"rows":[{"latency":1.}]}`, `{"rows":[{"latency":+1}]}`,
		`{"rows":[{"latency":1}],"rows":null}`,
		`{"rows":[{"latency":1}]}}`, `{"rows":[{"latency":1}],,}`, "{\"rows\":[{\"kernel_source\":\"a\nb\"}]}",
		`{"failure":{"message":1}}`, `{"failure":{"message":"m"}]}`,
	} {
		for _, kind := range []checkpoint.Kind{checkpoint.Measured, checkpoint.Failed, checkpoint.Withdrawn} {
			if valid(t, checkpoint.Entry{Kind: kind, Payload: []byte(text)}) {
				t.Errorf("%q %q is a case", kind, text)
			}
		}
	}
}

func TestRowsAndAFailure(t *testing.T) {
	e := checkpoint.Entry{Kind: checkpoint.Measured, Payload: []byte(`{"rows":[{"latency":1}],"failure":{"message":"m"}}`)}
	if valid(t, e) {
		t.Error("a measured case has failed")
	}
}

// valid reports whether an entry is accepted. Both readers of measured entries must agree, except on members
// that no table has.
func valid(t *testing.T, e checkpoint.Entry) bool {
	t.Helper()
	_, err := Decode(e)
	if e.Kind == checkpoint.Measured {
		if _, added := NewBuilder(nil).Add(e); (added == nil) != (err == nil) &&
			!strings.Contains(string(e.Payload), "seconds") {
			t.Errorf("%s: decoded: %v; added: %v", e.Payload, err, added)
		}
	}
	return err == nil
}
