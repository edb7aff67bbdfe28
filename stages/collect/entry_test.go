package collect

import (
	"encoding/json"
	"strings"
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
	for _, text := range []string{
		"", "{}", "null", `{"rows":[{`, `{"rows":[{"latency":1}]`, `{"failure":{`, `{"rows":[]}`, `{"rows":[null]}`, `{"failure":null}`,
		`{"rows":[{"latency":1}],"attempts":"1"}`, `{"rows":[{"latency":1}],"attempts":1.5}`, `{"rows":[{"latency":1}],"seconds":"1"}`, `{"rows":[{"latency":1}],"source":1}`,
		`{"rows":[{"latency":007}]}`, `{"rows":[{"latency":1.}]}`, `{"rows":[{"latency":+1}]}`, `{"rows":[{"latency":1}],"rows":null}`,
		`{"rows":[{"latency":1}]}}`, `{"rows":[{"latency":1}],,}`, "{\"rows\":[{\"kernel_source\":\"a\nb\"}]}", `{"failure":{"message":1}}`, `{"failure":{"message":"m"}]}`,
	} {
		for _, kind := range []checkpoint.Kind{checkpoint.Measured, checkpoint.Failed, checkpoint.Withdrawn} {
			if ValidEntry(checkpoint.Entry{Kind: kind, Payload: []byte(text)}) {
				t.Errorf("%s %q is a case", kind, text)
			}
		}
	}
}

func TestRowsAndAFailure(t *testing.T) {
	e := checkpoint.Entry{Kind: checkpoint.Measured, Payload: []byte(`{"rows":[{"latency":1}],"failure":{"message":"m"}}`)}
	if ValidEntry(e) {
		t.Error("a measured case has failed")
	}
}

// TestQuickEntriesAreEntries: an entry of which one byte is another one, or gone,
// passes for a case only where everything that reads it can.
func TestQuickEntriesAreEntries(t *testing.T) {
	t.Parallel()
	quick := 0
	failure := &entry{Failure: &worker.Failure{Class: "c", Exception: "E", Message: "a\nü\u2028\"b\"", Traceback: "t", Fatal: true}, Attempts: 2, Worker: "w0"}
	for _, e := range append(sampleEntries(), failure) {
		payload, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		if whole := (checkpoint.Entry{Kind: kindOf(e), Payload: payload}); quickEntry(whole) != (e.Label == nil) {
			t.Errorf("%s is read the slow way, or the quick one: %t", payload, quickEntry(whole))
		}
		for i := range payload {
			for _, with := range []string{"", "0", ".", "-", "e", "x", `"`, "u", "t", ",", "{", "}", "]", "\n", "\\", "\xff"} {
				changed := checkpoint.Entry{ID: "a", Kind: kindOf(e), Payload: []byte(string(payload[:i]) + with + string(payload[i+1:]))}
				if !quickEntry(changed) {
					continue
				}
				quick++
				if _, err := decodeEntry(changed); err != nil {
					t.Errorf("%q: %v", changed.Payload, err)
				}
			}
		}
	}
	if quick == 0 {
		t.Error("no change left an entry that is read the quick way")
	}
}

func kindOf(e *entry) checkpoint.Kind {
	if e.Failure != nil {
		return checkpoint.Failed
	}
	return checkpoint.Measured
}

func BenchmarkValidEntry(b *testing.B) {
	for _, e := range []*entry{
		{Rows: []worker.Row{{"latency": json.Number("0.0123456"), "samples": json.Number("100"), "throttled": false, "kernel_source": "cublas", "power": json.Number("512.25")}},
			Attempts: 1, Worker: "w0", DeviceUUID: "GPU-5d2f1c2e-0c0b-4b1c-9d6e-0a1b2c3d4e5f", At: "2026-11-22T04:30:12.123456789Z", Seconds: 0.0213},
		{Failure: &worker.Failure{Class: worker.ClassFrameworkBug, Exception: "RuntimeError", Message: "CUDA error", Traceback: strings.Repeat("  File \"x.py\", line 1\n", 40)}, Attempts: 1},
	} {
		payload, err := e.encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(kindOf(e).String(), func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if !ValidEntry(checkpoint.Entry{Kind: kindOf(e), Payload: payload}) {
					b.Fatal("no case")
				}
			}
		})
	}
}
