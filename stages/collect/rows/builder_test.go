package rows

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/google/go-cmp/cmp"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// sampleEntries are entries of all shapes.
func sampleEntries() []*Entry {
	return []*Entry{
		{Rows: []worker.Row{{"latency": json.Number("1.5"), "samples": json.Number("3"), "used_cuda_graph": true,
			"kernel_source": "k"}}, Attempts: 1, Worker: "w0", At: "2026-11-22T04:30:46.4Z", Seconds: 0.0000809, Points: 1},
		{Rows: []worker.Row{{"latency": json.Number("2e-3")}, {"latency": json.Number("7"), "throttled": false}}, Attempts: 2,
			Worker: "w1", DeviceUUID: "GPU-1"},
		{Rows: []worker.Row{{"latency": json.Number("3"), "note": `a "quoted" \ <text> ü`,
			"n": json.Number("9007199254740993")}}, Attempts: 1, Worker: "w0"},
		{Rows: []worker.Row{{"latency": json.Number("4"), "n": json.Number("1"), "plain": "x", "flag": true, "mix": "a"}},
			Attempts: 1},
		{Rows: []worker.Row{{"latency": json.Number("5"), "mix": json.Number("0.5"), "f": json.Number("0.5")}}, Attempts: 1,
			At:          "x",
			Attachments: []stage.Attachment{{Name: "a.txt", MediaType: "text/plain", Digest: "sha256:00", Bytes: 3}}},
		{Rows: []worker.Row{{"latency": json.Number("6"), "mix": true, "f": json.Number("2")}}, Attempts: 1, First: true},
	}
}

func payload(t *testing.T, e *Entry) checkpoint.Entry {
	t.Helper()
	raw, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint.Entry{ID: "c", Kind: e.Kind(), Payload: raw}
}

func TestDecodeReturnsWhatEncodeWrites(t *testing.T) {
	for i, e := range sampleEntries() {
		back, err := Decode(payload(t, e))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Errorf("%d: %s", i, d)
		}
	}
}

// column returns the values of a column as text.
func cells(rec arrow.Record, name string) string {
	at := table.Index(rec, name)
	if at < 0 {
		return "absent"
	}
	var out []string
	for row := range int(rec.NumRows()) {
		out = append(out, fmt.Sprint(table.Value(rec, at, row)))
	}
	return strings.Join(out, " ")
}

func TestBuilderMakesTable(t *testing.T) {
	s := SchemaOf(nil, "", true)
	b := NewBuilder(s)
	rows := 0
	for _, e := range sampleEntries() {
		n, err := b.Add(payload(t, e))
		if err != nil || n != len(e.Rows) {
			t.Fatalf("%d rows: %v", n, err)
		}
		rows += n
	}

	cases := table.NewRecord([]string{"m"}, []arrow.Array{table.Ints([]int64{6, 5, 4, 3, 2, 1, 0}, nil)})
	rec, mixed := Table(cases, s, b.Record(), []int{6, 5, 4, 3, 2, 1, 0}, Label{"CPU", "0", "cpu"})
	if rows != 7 || !reflect.DeepEqual(mixed, []string{"mix"}) {
		t.Errorf("%d rows, mixed %v", rows, mixed)
	}

	for name, want := range map[string]string{
		"m":               "6 5 4 3 2 1 0",
		"latency":         "6 5 4 3 7 0.002 1.5",
		"samples":         "<nil> <nil> <nil> <nil> <nil> <nil> 3",
		"throttled":       "<nil> <nil> <nil> <nil> false <nil> <nil>",
		"used_cuda_graph": "<nil> <nil> <nil> <nil> <nil> <nil> true",
		"kernel_source":   "<nil> <nil> <nil> <nil> <nil> <nil> k",
		"power":           "absent",
		"framework":       "CPU CPU CPU CPU CPU CPU CPU",
		"device":          "cpu cpu cpu cpu cpu cpu cpu",
		"attempts":        "1 1 1 1 2 2 1",
		"worker":          "   w0 w1 w1 w0",
		"device_uuid":     "    GPU-1 GPU-1 ",
		"started_at":      " x     2026-11-22T04:30:46.4Z",
		"n":               "<nil> <nil> 1 9007199254740993 <nil> <nil> <nil>",
		"f":               "2 0.5 <nil> <nil> <nil> <nil> <nil>",
		"mix":             "true 0.5 a <nil> <nil> <nil> <nil>",
		"note":            `<nil> <nil> <nil> a "quoted" \ <text> ü <nil> <nil> <nil>`,
		"flag":            "<nil> <nil> true <nil> <nil> <nil> <nil>",
		"attachments": `<nil> [{"name":"a.txt","media_type":"text/plain","digest":"sha256:00","bytes":3}] <nil> <nil> ` +
			`<nil> <nil> <nil>`,
	} {
		if got := cells(rec, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestBuilderKeepsLargeIntegers checks that integers which no float has are not rounded.
func TestBuilderKeepsLargeIntegers(t *testing.T) {
	b := NewBuilder(nil)
	for _, n := range []string{"9007199254740993", "0.5"} {
		if _, err := b.Add(payload(t, &Entry{Rows: []worker.Row{{"n": json.Number(n)}}})); err != nil {
			t.Fatal(err)
		}
	}
	rec, mixed := Table(table.NewRecord([]string{"m"}, []arrow.Array{table.Ints([]int64{0, 1}, nil)}), nil, b.Record(),
		[]int{0, 1}, Label{})
	if got := cells(rec, "n"); got != "9007199254740993 0.5" || len(mixed) != 1 {
		t.Errorf("%s, mixed %v", got, mixed)
	}
}
