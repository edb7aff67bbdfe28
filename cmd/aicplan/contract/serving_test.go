package contract

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Delays of the server: to the first token and between tokens.
const (
	toFirst = 30 * time.Millisecond
	between = 5 * time.Millisecond
)

// server answers as OpenAI-compatible servers do, with known delays and counts,
// and keeps what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
	start time.Time
	open  int // requests in work, and the most of them at once
	most  int
	fault func(n int) string // of the n-th request, from 1
}

// asked is a request as the server saw it.
type asked struct {
	Model     string
	Stream    bool
	Tokens    int
	Messages  []map[string]any
	Cancelled bool
	At        time.Time
}

func newServer(t *testing.T) *server {
	s := &server{start: time.Now(), fault: func(int) string { return "" }}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	})
	mux.HandleFunc("GET /gpus/metrics", s.gpus)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model               string
		Stream              bool
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		Messages            []map[string]any
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	tokens := max(body.MaxTokens, body.MaxCompletionTokens)
	s.mu.Lock()
	s.asked = append(s.asked, asked{Model: body.Model, Stream: body.Stream, Tokens: tokens,
		Messages: body.Messages, At: time.Now()})
	n := len(s.asked)
	fault := s.fault(n)
	s.open++
	s.most = max(s.most, s.open)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	if fault == "status" {
		http.Error(w, `{"error":{"message":"busy"}}`, http.StatusServiceUnavailable)
		return
	}

	prompt := 0
	for _, m := range body.Messages {
		text, _ := m["content"].(string)
		prompt += len(strings.Fields(text))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) {
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	}
	wait := toFirst
	for i := range tokens {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			s.mu.Lock()
			s.asked[n-1].Cancelled = true
			s.mu.Unlock()
			return
		}
		wait = between
		send(`{"id":"x","object":"chat.completion.chunk","model":"m",` +
			`"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":null}]}`)
		if fault == "cut" && i == 1 {
			panic(http.ErrAbortHandler)
		}
	}
	send(fmt.Sprintf(`{"id":"x","object":"chat.completion.chunk","model":"m","choices":[],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		prompt, tokens, prompt+tokens))
	s.mu.Lock()
	s.open-- // the client may send its next request now
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open++
		s.mu.Unlock()
	}()
	send("[DONE]")
}

// gpus is a page of a DCGM exporter: one GPU that draws 300 W.
func (s *server) gpus(w http.ResponseWriter, _ *http.Request) {
	since := time.Since(s.start)
	const labels = `{gpu="0",UUID="GPU-11111111-2222-3333-4444-555555555555",` +
		`device="nvidia0",modelName="NVIDIA H200",Hostname="node"}`
	power := 290.0
	if since/(20*time.Millisecond)%2 == 0 {
		power = 310
	}
	fmt.Fprintf(w, "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE%s %g\n", labels, power)
	fmt.Fprintf(w, "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"+
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION%s %d\n", labels, since.Milliseconds()*300)
	fmt.Fprintf(w, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL%s 50\n", labels)
	fmt.Fprintf(w, "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\nDCGM_FI_DEV_SM_CLOCK%s 1980\n", labels)
}

// requests are those that the server got so far.
func (s *server) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

const servingPlan = `
variable "url" {}
telemetry "gpus" {
  endpoints = ["${var.url}/gpus/metrics"]
  defaults  = false
  nvml      = false
  interval  = "20ms"
}
runtime "server" {
  kind  = "endpoint"
  url   = var.url
  model = "m"
}
grid "load" {
  op = "chat"
  axis "concurrency" { values = [1, 4] }
}
collect "load" {
  grid      = grid.load
  runtime   = runtime.server
  telemetry = telemetry.gpus
  load {
    requests        = 16
    warmup_requests = 2
    isl             = 12
    osl             = 6
    seed            = 7
    slo             = { ttft = 10000 }
  }
}
gate "load" {
  input = collect.load
  check "coverage" { min = 1 }
  assert "errors" {
    condition = max.error_rate == 0
    message   = "requests failed"
  }
}
export "files" {
  input  = gate.load
  layout = "aiperf"
}
export "table" {
  input = gate.load
  table = "serving_perf"
  file  = "serving.csv"
}
`

// within checks a figure of a row against bounds.
func within(t *testing.T, row map[string]any, column string, low, high float64) {
	t.Helper()
	v, ok := row[column].(float64)
	if !ok || v < low || v > high {
		t.Errorf("%s is %v, want %g to %g", column, row[column], low, high)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// TestServing puts load on a server with known delays: counts are exact, times
// are at least what the server waited, and AIPerf's files hold the same.
func TestServing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := newFolder(t, "plan.hcl", servingPlan)
	began := time.Now()
	f.apply(0, "--var", "url="+s.URL, "plan.hcl")
	ended := time.Now()
	got := s.requests()
	if len(got) != 2*(16+2) || s.most != 4 {
		t.Errorf("the server got %d requests, %d at once; want 36 and 4", len(got), s.most)
	}
	prompts := map[string]bool{}
	for _, r := range got {
		if r.Model != "m" || !r.Stream || r.Tokens != 6 || len(r.Messages) != 1 {
			t.Fatalf("a request is %+v", r)
		}
		text, _ := r.Messages[0]["content"].(string)
		prompts[text] = true
		if n := len(strings.Fields(text)); n != 12 {
			t.Errorf("a prompt has %d words, want 12: %q", n, text)
		}
	}
	if len(prompts) != len(got) {
		t.Errorf("%d requests have %d different prompts", len(got), len(prompts))
	}

	found := rows(t, f.expect(0, "show", "--json", "collect.load").stdout)
	if len(found) != 2 {
		t.Fatalf("%d rows, want 2", len(found))
	}
	// The windows of the loads, which run one after the other, lie in the time of the apply.
	slices.SortFunc(found, func(a, b map[string]any) int {
		return cmp.Compare(a["window_start_ns"].(float64), b["window_start_ns"].(float64))
	})
	least, most := float64(began.UnixNano()), float64(ended.UnixNano())
	for _, row := range found {
		const rounding = 1e3 // a float64 has these times to 256 ns
		duration, from := row["duration"].(float64), row["window_start_ns"].(float64)
		within(t, row, "window_start_ns", least-rounding, most)
		within(t, row, "window_end_ns", from+duration*1e9-rounding, most)
		least = row["window_end_ns"].(float64)
		window := (least - from) / 1e9 // in s; its end may be late on a slow machine

		concurrency := row["concurrency"].(float64)
		for column, want := range map[string]any{
			"requests": 16.0, "succeeded": 16.0, "failed": 0.0, "cancelled": 0.0, "error_rate": 0.0,
			"short_outputs": 0.0, "good_fraction": 1.0,
			"input_length": 12.0, "output_length": 6.0, "input_tokens": 192.0, "output_tokens": 96.0, "unique_prompts": 16.0,
			"token_source": "usage", "telemetry_gpus": 1.0, "gpu_sm_clock_mhz": 1980.0, "gpu_utilization_pct": 50.0,
		} {
			if row[column] != want {
				t.Errorf("%s is %v, want %v", column, row[column], want)
			}
		}
		const last = toFirst + 5*between
		for column, low := range map[string]time.Duration{"ttft": toFirst, "ttfo": toFirst,
			"itl": between, "icl": between, "latency": last} {
			within(t, row, column, ms(low), 20*ms(low))
			if column != "ttfo" {
				within(t, row, column+"_p99", ms(low), 50*ms(low))
			}
		}
		// A client that reads the first token late sees a shorter time to the second one; their sum
		// is never less than the server's delays.
		row["first_two"] = row["ttft"].(float64) + row["ttst"].(float64)
		within(t, row, "first_two", ms(toFirst+between), 20*ms(toFirst+between))
		within(t, row, "duration", 16/concurrency*last.Seconds(), 30)
		within(t, row, "effective_concurrency", concurrency/2, concurrency)
		for column, count := range map[string]float64{"request_throughput": 16, "goodput": 16, "throughput": 96,
			"input_throughput": 192, "total_throughput": 288} {
			within(t, row, column, count/duration*0.999999, count/duration*1.000001)
		}

		// The GPU drew 300 W.
		within(t, row, "gpu_power_w", 290, 310)
		within(t, row, "gpu_energy_j", 250*window, 350*window)
		within(t, row, "gpu_energy_by_power_j", 250*window, 350*window)
		energy, known := row["gpu_energy_j"].(float64)
		if !known {
			t.Fatalf("gpu_energy_j is unknown: %v", row)
		}
		within(t, row, "energy_per_request_j", energy/16*0.999, energy/16*1.001)
		within(t, row, "energy_per_output_token_j", energy/96*0.999, energy/96*1.001)
		f.aiperf(fmt.Sprintf("out/concurrency-%g", concurrency), row)
	}
	if n := strings.Count(string(f.read("out/serving.csv")), "\n"); n != 3 {
		t.Errorf("%d lines in the exported table, want 3", n)
	}

	// What was measured is not measured again, and the exported files are up to date.
	if again := f.expect(0, "plan", "--var", "url="+s.URL, "plan.hcl"); !strings.Contains(string(again.stdout),
		"nothing to do") {
		t.Errorf("the plan after an apply is:\n%s", again.stdout)
	}
	f.apply(0, "--var", "url="+s.URL, "plan.hcl")
	if n := len(s.requests()); n != len(got) {
		t.Errorf("a second apply sent %d requests", n-len(got))
	}
}

// aiperf checks the files of a load point against its row.
func (f *folder) aiperf(dir string, row map[string]any) {
	t := f.t
	t.Helper()
	var names []string
	for name := range f.files(dir) {
		names = append(names, name)
	}
	slices.Sort(names)
	expectEqual(t, "files", names, []string{
		"gpu_telemetry_export.jsonl", "gpu_telemetry_export.parquet", "inputs.json", "phase_manifest.json",
		"phases/profiling/gpu_telemetry.json",
		"phases/profiling/profile_export_aiperf.csv", "phases/profiling/profile_export_aiperf.json",
		"phases/warmup/gpu_telemetry.json", "phases/warmup/profile_export_aiperf.csv",
		"phases/warmup/profile_export_aiperf.json",
		"profile_export.jsonl", "profile_export_aiperf.csv", "profile_export_aiperf.json", "profile_export_console.txt",
	})

	var summary map[string]any
	if err := json.Unmarshal(f.read(dir+"/profile_export_aiperf.json"), &summary); err != nil {
		t.Fatal(err)
	}
	for tag, column := range map[string]string{
		"time_to_first_token": "ttft", "time_to_second_token": "ttst", "inter_token_latency": "itl",
		"inter_chunk_latency": "icl",
		"request_latency":     "latency", "request_throughput": "request_throughput", "output_token_throughput": "throughput",
		"input_sequence_length": "input_length", "output_sequence_length": "output_length", "request_count": "succeeded",
		"benchmark_duration": "duration", "total_osl": "output_tokens", "effective_concurrency": "effective_concurrency",
	} {
		stats, _ := summary[tag].(map[string]any)
		want := row[column].(float64)
		if stats["unit"] == nil {
			t.Errorf("%s: %s has no unit: %v", dir, tag, stats)
		}
		within(t, stats, "avg", want*0.999999, want*1.000001)
	}
	for _, key := range []string{"schema_version", "input_config", "start_time", "end_time", "was_cancelled",
		"error_summary", "telemetry_data", "warmup_metrics"} {
		if _, ok := summary[key]; !ok {
			t.Errorf("%s: the summary lacks %s", dir, key)
		}
	}

	phases := map[any]int{}
	for _, line := range rows(t, f.read(dir+"/profile_export.jsonl")) {
		meta, _ := line["metadata"].(map[string]any)
		phases[meta["benchmark_phase"]]++
		metrics, _ := line["metrics"].(map[string]any)
		if len(metrics) == 0 || meta["request_start_ns"].(float64) > meta["request_end_ns"].(float64) {
			t.Errorf("%s: a request is %v", dir, line)
		}
	}
	if phases["warmup"] != 2 || phases["profiling"] != 16 {
		t.Errorf("%s: requests by phase %v", dir, phases)
	}
	var inputs struct{ Data []struct{ Payloads []any } }
	if err := json.Unmarshal(f.read(dir+"/inputs.json"), &inputs); err != nil || len(inputs.Data) < 16 {
		t.Errorf("%s: %d inputs, %v", dir, len(inputs.Data), err)
	}
	if !strings.HasPrefix(string(f.read(dir+"/profile_export_aiperf.csv")), "Metric,avg,min,max,") {
		t.Errorf("%s: the CSV has another head", dir)
	}
	for _, sample := range rows(t, f.read(dir+"/gpu_telemetry_export.jsonl")) {
		data, _ := sample["telemetry_data"].(map[string]any)
		within(t, data, "nvidia_power_usage", 290, 310)
	}
}

// loadPlan has a load block and settings from a variable.
func loadPlan(load string) string {
	return `
variable "url" {}
runtime "server" {
  kind  = "endpoint"
  url   = var.url
  model = "m"
}
grid "load" {
  op = "chat"
  axis "n" { values = [1] }
}
collect "load" {
  grid    = grid.load
  runtime = runtime.server
  load {
` + load + `
  }
}
gate "load" {
  input = collect.load
  assert "errors" {
    condition = max.error_rate < 0.1
    message   = "too many requests failed"
  }
}
export "files" {
  input  = gate.load
  layout = "aiperf"
}
`
}

// loadOnce applies a plan of one load point and returns its row.
func loadOnce(t *testing.T, s *server, code int, load string, files ...string) (*folder, map[string]any) {
	t.Helper()
	plan := strings.Replace(loadPlan(load), `  axis "n" { values = [1] }`, `  axis "seed" { values = [3] }`, 1)
	f := newFolder(t, append(files, "plan.hcl", plan)...)
	f.apply(code, "--var", "url="+s.URL, "plan.hcl")
	found := rows(t, f.expect(0, "show", "--json", "collect.load").stdout)
	if len(found) != 1 {
		t.Fatalf("%d rows, want 1", len(found))
	}
	return f, found[0]
}

// TestServingErrors: requests that fail count in the rates, and a gate stops
// their export.
func TestServingErrors(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fault = func(n int) string {
		switch n % 6 {
		case 0:
			return "status"
		case 3:
			return "cut"
		}
		return ""
	}
	f, row := loadOnce(t, s, 4, "requests = 12\nconcurrency = 1\nisl = 8\nosl = 4")
	for column, want := range map[string]float64{"requests": 12, "succeeded": 8, "failed": 4, "output_tokens": 32} {
		if row[column] != want {
			t.Errorf("%s is %v, want %v", column, row[column], want)
		}
	}
	within(t, row, "error_rate", 4.0/12-1e-9, 4.0/12+1e-9)
	duration := row["duration"].(float64)
	within(t, row, "request_throughput", 8/duration*0.999999, 8/duration*1.000001)
	if f.has("out") {
		t.Error("a load with errors was exported behind a gate")
	}
}

// TestServingCancelled: requests that the client gives up are counted, and the
// server sees their connections end.
func TestServingCancelled(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, row := loadOnce(t, s, 4, "requests = 20\nconcurrency = 5\nisl = 8\nosl = 200\n"+
		"cancel_share = 0.5\ncancel_delay = 0.1\nduration = 60")
	cancelled, _ := row["cancelled"].(float64)
	if cancelled == 0 || cancelled == 20 {
		t.Errorf("%g of 20 requests were cancelled, want about half", cancelled)
	}
	waitFor(t, "the server sees what was cancelled", func() bool {
		n := 0
		for _, r := range s.requests() {
			if r.Cancelled {
				n++
			}
		}
		return n == int(cancelled)
	})
	if row["failed"] != cancelled || row["succeeded"] != 20-cancelled {
		t.Errorf("%v failed and %v succeeded, with %g cancelled", row["failed"], row["succeeded"], cancelled)
	}
}

// TestServingRate sends requests at a constant rate, however many are open.
func TestServingRate(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, row := loadOnce(t, s, 0, "requests = 11\nrequest_rate = 25\narrival = \"constant\"\nisl = 8\nosl = 4")
	got := s.requests()
	if len(got) != 11 || row["requests"] != 11.0 {
		t.Errorf("%d requests, and the row has %v; want 11", len(got), row["requests"])
	}
	if d := afterStart(row, got[10]); d < 399*time.Millisecond || d > 10*time.Second {
		t.Errorf("11 requests at 25 a second arrive within %v, want about 400 ms", d)
	}
}

// afterStart returns the time from the start of the load's window to the arrival of a request. On a busy machine, the
// first request may arrive late, but none is sent before its time.
func afterStart(row map[string]any, r asked) time.Duration {
	return r.At.Sub(time.Unix(0, int64(row["window_start_ns"].(float64))))
}

// TestServingTurns holds conversations: each turn carries those before it.
func TestServingTurns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, row := loadOnce(t, s, 0, "sessions = 3\nturns = 2\nturn_delay = 0.02\nconcurrency = 1\nisl = 8\nosl = 4")
	var messages []int
	for _, r := range s.requests() {
		messages = append(messages, len(r.Messages))
	}
	expectEqual(t, "messages of requests", messages, []int{1, 3, 1, 3, 1, 3})
	if row["requests"] != 6.0 || row["output_tokens"] != 24.0 {
		t.Errorf("requests %v with %v tokens, want 6 with 24", row["requests"], row["output_tokens"])
	}
}

// TestServingTrace replays a trace: lengths, times and shared prefixes are those
// of its lines.
func TestServingTrace(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const trace = `{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 40, "input_length": 700, "output_length": 4, "hash_ids": [1, 3]}
{"timestamp": 90, "input_length": 20, "output_length": 5}
{"timestamp": 300, "input_length": 10, "output_length": 2}
`
	_, row := loadOnce(t, s, 0, `trace = "trace.jsonl"`, "trace.jsonl", trace)
	got := s.requests()
	if len(got) != 4 {
		t.Fatalf("%d requests, want 4", len(got))
	}
	var tokens, words []int
	var texts []string
	for _, r := range got {
		text, _ := r.Messages[0]["content"].(string)
		texts = append(texts, text)
		tokens = append(tokens, r.Tokens)
		words = append(words, len(strings.Fields(text)))
	}
	expectEqual(t, "tokens asked for", tokens, []int{3, 4, 5, 2})
	expectEqual(t, "words of prompts", words, []int{600, 700, 20, 10})
	shared := strings.Fields(texts[0])[:512]
	if strings.Join(strings.Fields(texts[1])[:512], " ") != strings.Join(shared, " ") {
		t.Error("prompts with one hash id do not share their first 512 words")
	}
	if d := afterStart(row, got[3]); d < 299*time.Millisecond || d > 10*time.Second {
		t.Errorf("the trace takes %v, want 300 ms", d)
	}
	if row["requests"] != 4.0 || row["output_tokens"] != 14.0 || row["input_tokens"] != 1330.0 {
		t.Errorf("requests %v, tokens in %v, out %v; want 4, 1330, 14", row["requests"], row["input_tokens"],
			row["output_tokens"])
	}
}
