package aiperf

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicplan/cudaops/load/openai"
)

// shape describes AIPerf's own files: names, units and types.
type shape struct {
	Summary map[string]*struct {
		Unit  string
		Stats []string
	}
	Record struct {
		Metadata      []string
		Metrics       map[string]struct{ Unit, Type string }
		ErrorMetadata []string `json:"error_metadata"`
		Error         []string
	}
	CSV []string
}

func reference(t *testing.T) shape {
	t.Helper()
	raw, err := os.ReadFile("testdata/aiperf-0.13.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var s shape
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

const second = int64(1e9)

// records returns four requests, the last of which was cancelled.
func records() []Record {
	var out []Record
	for i := range int64(4) {
		r := Record{}
		r.Reset()
		r.ID, r.Correlation, r.Conversation, r.Number = fmt.Sprint("id-", i), "c", "session_000000", int(i)
		r.Credit, r.Free, r.Start = 1700*second+i*1e6, 1700*second+i*1e6, 1700*second+i*1e6+1000
		r.Sent, r.Ack = r.Start+1000, r.Start+20e6
		for k := range int64(5) {
			r.Times = append(r.Times, r.Start+20e6+k*(2e6+i*1000))
		}
		r.Last = r.Times[4] + 1000
		r.Finish, r.FirstOutput, r.Asked, r.Input, r.Output, r.Reads, r.Reused = r.Last, 0, 6, 30, 5+int(i%2), 7, i > 0
		r.Usage = &openai.Usage{Prompt: 31, Completion: 5, Total: 36, Reasoning: -1, Cached: -1}
		out = append(out, r)
	}
	out[3].Err = &Failure{Code: 499, Type: TypeCancelled,
		Message: "Request cancelled \"0.010s\"\n after\x01 being sent \u00e9"}
	out[3].Cancelled, out[3].Ack = true, 0
	return out
}

func report(t *testing.T) (*Report, []byte) {
	t.Helper()
	slo, err := ParseSLO(map[string]float64{"ttft": 30})
	if err != nil {
		t.Fatal(err)
	}
	c := Collector{Streaming: true, SLO: slo}
	var log []byte
	for _, r := range records() {
		log = AppendRecord(log, &r, c.Add(&r), true, false, "worker_1")
	}
	s := c.Summary()
	return &Report{ID: "abc", Phase: Phase{Summary: s, From: s.From, To: s.To}, Seed: 7,
		Input: map[string]any{"models": 1}}, log
}

// TestSummaryHasAIPerfsKeys checks that every key of AIPerf's summary exists with the same unit and
// statistics.
func TestSummaryHasAIPerfsKeys(t *testing.T) {
	r, _ := report(t)
	raw, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	for key, want := range reference(t).Summary {
		if key == "context_overflow_count" {
			continue // AIPerf's agent replay
		}
		value, ok := got[key]
		if !ok {
			t.Errorf("there is no %s", key)
			continue
		}
		if want == nil {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal(value, &m); err != nil || m["unit"] != want.Unit {
			t.Errorf("%s: %s, want the unit %s", key, value, want.Unit)
		}
		if strings.HasPrefix(key, "adj_") {
			continue // which percentiles are finite depends on the failures
		}
		have := slices.Sorted(maps.Keys(m))
		have = slices.DeleteFunc(have, func(s string) bool { return s == "unit" })
		if !slices.Equal(have, want.Stats) {
			t.Errorf("%s has %v, want %v", key, have, want.Stats)
		}
	}
	if string(got["schema_version"]) != `"1.4"` || string(got["is_complete"]) != "true" {
		t.Errorf("%s %s", got["schema_version"], got["is_complete"])
	}
}

func TestRecordsHaveAIPerfsKeys(t *testing.T) {
	want := reference(t).Record
	_, log := report(t)
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	var first, last struct {
		Metadata map[string]any
		Metrics  map[string]struct {
			Value any
			Unit  string
		}
		Error map[string]any
	}
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(lines[3]), &last); err != nil {
		t.Fatal(err)
	}
	for _, name := range want.Metadata {
		if _, ok := first.Metadata[name]; !ok {
			t.Errorf("metadata has no %s", name)
		}
	}
	for name, w := range want.Metrics {
		m, ok := first.Metrics[name]
		if !ok || m.Unit != w.Unit {
			t.Errorf("%s: %+v, want %+v", name, m, w)
			continue
		}
		at := strings.Index(lines[0], `"`+name+`":{"value":`) + len(name) + len(`"":{"value":`)
		text := lines[0][at : at+strings.IndexAny(lines[0][at:], ",}")]
		if _, list := m.Value.([]any); list != (w.Type == "list") || w.Type == "int" && strings.ContainsAny(text, ".e") ||
			w.Type == "float" && !strings.ContainsAny(text, ".e") {
			t.Errorf("%s is %s, want a %s", name, text, w.Type)
		}
	}
	for _, name := range want.ErrorMetadata {
		if _, ok := last.Metadata[name]; !ok {
			t.Errorf("the metadata of a failed request has no %s", name)
		}
	}
	for _, name := range want.Error {
		if _, ok := last.Error[name]; !ok {
			t.Errorf("an error has no %s", name)
		}
	}
	if last.Error["message"] != records()[3].Err.Message {
		t.Errorf("the message is %q", last.Error["message"])
	}
}

func TestCSV(t *testing.T) {
	r, _ := report(t)
	raw, err := r.CSV()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(raw, []byte("Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std\r\n")) ||
		!bytes.Contains(raw, []byte("\r\n\r\nMetric,Value\r\n")) {
		t.Errorf("%.200s", raw)
	}
	c := csv.NewReader(bytes.NewReader(raw))
	c.FieldsPerRecord = -1
	rows, err := c.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, row := range rows {
		have[row[0]] = true
	}
	for _, name := range reference(t).CSV {
		if !have[name] {
			t.Errorf("there is no %q", name)
		}
	}
}

func TestConsole(t *testing.T) {
	r, _ := report(t)
	text := r.Console()
	for _, want := range []string{"LLM Metrics: Effective", "Error Summary", "Time to First Token (ms)", "499",
		"Benchmark Duration:", "Request Count (requests)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x01\x1b") {
		t.Error("a server's control characters reach the terminal")
	}
	for v, want := range map[float64]string{0: "0.00", 1234567.891: "1,234,567.89", -1234: "-1,234.00",
		999.999: "1,000.00"} {
		if got := grouped(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

// TestFloatsOfTheRequestLog compares the text of numbers with that of strconv.
func TestFloatsOfTheRequestLog(t *testing.T) {
	check := func(v float64) {
		want := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(want, ".e") {
			want += ".0"
		}
		got := string(appendFloat(nil, v))
		if read, err := strconv.ParseFloat(got, 64); err != nil || read != v {
			t.Fatalf("%s is written as %s", want, got)
		}
		if v < 1e21 && got != want && !strings.Contains(want, "e") {
			t.Fatalf("%s is written as %s", want, got)
		}
	}
	for _, v := range []float64{0, 0.1, 1, 1e-4, 0.000123, 1e-6, 12.5, 999999.999999, 1e9, 1e12, 1e22, -3.5, 1.0 / 3} {
		check(v)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		check(float64(r.Int64N(1_000_000_000_000)) / 1e6)
		check(r.Float64() * 1e3)
	}
}
