package collect

import (
	"encoding/json"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
)

// TestNumberIn: the quick way reads what the general one does, and says nothing of
// cases with several rows, failures and metrics that are no number.
func TestNumberIn(t *testing.T) {
	more := []*entry{
		{Rows: []worker.Row{{"latency": json.Number("1.5"), "rel_stdev": json.Number("0.01")}}, Attempts: 1, At: "2026-11-22T04:30:46.4Z"},
		{Rows: []worker.Row{{"latency": json.Number("1.5"), "rel_stdev": json.Number("0.01"), "note": "a \"b\""}}, Attempts: 1, At: "2026-11-22T04:30:46.4Z"},
		{Rows: []worker.Row{{"rel_stdev": json.Number("0.01")}}},
		{Rows: []worker.Row{{"latency": "NaN"}}},
		{Rows: []worker.Row{{"latency": true, "rel_stdev": "x"}}},
		{Failure: &worker.Failure{Message: "m"}},
	}
	found := 0
	for i, e := range append(sampleEntries(), more...) {
		payload, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		var want Number
		wantOK := false
		if len(e.Rows) == 1 {
			want.At = e.At
			want.Value, wantOK = floatOf(e.Rows[0]["latency"])
			want.Noise, want.HasNoise = floatOf(e.Rows[0]["rel_stdev"])
		}
		got, ok, err := numberIn(checkpoint.Entry{Kind: kindOf(e), Payload: payload}, "latency")
		if err != nil || ok != wantOK || ok && got != want {
			t.Errorf("%d: %+v, %v (%v), want %+v, %v: %s", i, got, ok, err, want, wantOK, payload)
		}
		if ok {
			found++
		}
	}
	if found < 5 {
		t.Errorf("only %d numbers", found)
	}
	if _, _, err := numberIn(checkpoint.Entry{Kind: checkpoint.Measured, Payload: []byte(`{"rows":[{`)}, "latency"); err == nil {
		t.Error("half of an entry is read")
	}
}

// BenchmarkNumberIn reads one entry of a journal as reports do.
func BenchmarkNumberIn(b *testing.B) {
	payload, err := sampleEntries()[0].encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := numberIn(checkpoint.Entry{Kind: checkpoint.Measured, Payload: payload}, "latency"); err != nil {
			b.Fatal(err)
		}
	}
}
