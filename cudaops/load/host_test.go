package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
	"aicplan/cudaops/worker"
)

// emitter records the messages of a host.
type emitter struct {
	rows     []worker.Row
	failure  *worker.Failure
	attached []worker.Attachment
	logs     []string
}

func (e *emitter) Start(int64)                                  {}
func (e *emitter) Result(_ int64, rows []worker.Row, _ float64) { e.rows = rows }
func (e *emitter) Error(_ int64, f worker.Failure)              { e.failure = &f }
func (e *emitter) Attach(_ int64, a worker.Attachment)          { e.attached = append(e.attached, a) }
func (e *emitter) Log(level, format string, args ...any) {
	e.logs = append(e.logs, level+": "+fmt.Sprintf(format, args...))
}

func listen(t *testing.T, o loadtest.Options) (*loadtest.Server, string) {
	t.Helper()
	s, err := loadtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.Wait()
	})
	return s, l.Addr().String()
}

// measure runs one case.
func measure(t *testing.T, options map[string]any, blocks, op, params string) *emitter {
	t.Helper()
	h := NewHost(worker.Init{Kind: "endpoint", Options: options, Blocks: json.RawMessage(blocks), Spool: t.TempDir()})
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := make(chan worker.Case, 1)
	in <- worker.Case{Seq: 1, ID: "abcdef0123456789", Op: op, Params: json.RawMessage(params), Attempt: 1}
	close(in)
	out := &emitter{}
	if err := h.Serve(t.Context(), in, out); err != nil {
		t.Fatal(err)
	}
	for i, a := range out.attached {
		if a.File != "" {
			data, err := os.ReadFile(filepath.Join(h.init.Spool, a.File))
			if err != nil {
				t.Fatal(err)
			}
			out.attached[i].Data = data
		}
	}
	return out
}

func (e *emitter) file(t *testing.T, name string) []byte {
	t.Helper()
	i := slices.IndexFunc(e.attached, func(a worker.Attachment) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return e.attached[i].Data
}

// TestRowHasTheServersQueueTime checks that queue times are in ms, and that the columns are missing if
// the server does not report them.
func TestRowHasTheServersQueueTime(t *testing.T) {
	t.Parallel()
	rowOf := func(queue time.Duration) worker.Row {
		srv := server(t, loadtest.Options{})
		srv.queue = queue
		e := measure(t, map[string]any{"url": srv.listen(t), "model": "m"},
			`{"load": {"requests": 4, "warmup_requests": 2, "isl": 5, "osl": 3}}`, "chat", `{"concurrency": 1}`)
		if e.failure != nil {
			t.Fatalf("%+v", e.failure)
		}
		return e.rows[0]
	}
	row := rowOf(10 * time.Millisecond)
	for name, want := range map[string]float64{"server_queue": 45, "server_prefill": 90} {
		if got, ok := row[name].(float64); !ok || !(math.Abs(got-want) <= 1e-6) {
			t.Errorf("%s is %v, want %v", name, row[name], want)
		}
	}
	if row := rowOf(0); row["server_queue"] != nil {
		t.Errorf("server_queue is %v", row["server_queue"])
	}
}

func TestLoadPointHasARowAndFiles(t *testing.T) {
	const key = "sk-very-secret"
	t.Setenv("LOAD_TEST_KEY", key)
	srv, addr := listen(t, loadtest.Options{Key: key, Truth: true,
		Faults: []loadtest.Fault{{Kind: loadtest.FaultErrorEvent, Every: 8, After: 2}}})
	options := map[string]any{
		"url": addr, "model": "m", "api_key_env": "LOAD_TEST_KEY", "extra_inputs": map[string]any{"ignore_eos": true},
		"labels": []any{"note"},
	}
	e := measure(t, options, `{"load": {"requests": 32, "warmup_requests": 2, "isl": 10, "osl": 99, "seed": 7}}`, "chat",
		`{"concurrency": 4, "osl": 6, "note": "x"}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	row := e.rows[0]
	for name, want := range map[string]any{
		"requests": 32, "failed": 4, "succeeded": 28, "error_rate": 0.125, "output_length": 6.0, "token_source": "usage",
		"prompt_source":  "words",
		"unique_prompts": 32, "short_outputs": 0.0,
	} {
		if fmt.Sprint(row[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, row[name], want)
		}
	}
	for _, name := range []string{"ttft", "ttft_p99", "itl", "latency", "latency_p50", "throughput", "request_throughput",
		"send_lag_p99", "client_cpu_share", "client_sched_p99", "window_start_ns", "window_end_ns"} {
		if _, ok := row[name]; !ok {
			t.Errorf("the row has no %s", name)
		}
	}
	var sum map[string]any
	if err := json.Unmarshal(e.file(t, aiperf.SummaryJSON), &sum); err != nil {
		t.Fatal(err)
	}
	if sum["schema_version"] != "1.4" || len(sum["error_summary"].([]any)) != 1 || sum["warmup_metrics"] == nil {
		t.Errorf("%v", sum["error_summary"])
	}
	lines := strings.Split(strings.TrimSpace(string(e.file(t, aiperf.Records))), "\n")
	if len(lines) != 34 { // including warm-up
		t.Errorf("%d lines", len(lines))
	}
	ids := map[string]bool{}
	for _, tr := range srv.Truths() {
		ids[tr.ID] = true
		if !strings.Contains(string(tr.Body), `"ignore_eos":true`) ||
			!strings.Contains(string(tr.Body), `"max_completion_tokens":6`) {
			t.Errorf("body %s", tr.Body)
		}
	}
	for _, line := range lines {
		var r struct {
			Metadata struct {
				ID    string `json:"x_request_id"`
				Phase string `json:"benchmark_phase"`
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || !ids[r.Metadata.ID] {
			t.Errorf("%v: %s", err, line)
		}
	}
	everything := fmt.Sprint(e.rows, e.logs)
	for _, a := range e.attached {
		everything += string(a.Data)
	}
	if strings.Contains(everything, key) || strings.Contains(everything, "very-secret") {
		t.Error("the key is in what is kept or shown")
	}
	if !strings.Contains(strings.Join(e.logs, "\n"), "Time to First Token (ms)") {
		t.Errorf("no table: %q", e.logs)
	}
}

func TestInvalidCases(t *testing.T) {
	_, addr := listen(t, loadtest.Options{})
	options := func(more map[string]any) map[string]any {
		out := map[string]any{"url": addr, "model": "m"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for _, c := range []struct {
		options        map[string]any
		blocks, params string
		class, want    string
	}{
		{nil, `{}`, `{"concurency": 4}`, worker.ClassUnsupportedConfig,
			`the case has "concurency", which is no setting of load`},
		{nil, `{}`, `{"concurrency": "many"}`, worker.ClassUnsupportedConfig,
			"concurrency is a string; a whole number is needed"},
		{nil, `{}`, `{"endpoint_type": 5}`, worker.ClassUnsupportedConfig, "endpoint_type is a number; a string is needed"},
		{nil, `{}`, `{"concurrency": 1.5}`, worker.ClassUnsupportedConfig, "a whole number is needed"},
		{nil, `{"load": {"requests": -1}}`, `{}`, worker.ClassUnsupportedConfig, "requests is -1"},
		{map[string]any{"url": "127.0.0.1:1"}, `{}`, `{}`, worker.ClassTransient, "is it running, and is url right?"},
		{map[string]any{"tokenizer": "/no/such/folder"}, `{}`, `{}`, worker.ClassUnsupportedConfig, "tokenizer.json"},
		{map[string]any{"model": ""}, `{}`, `{}`, worker.ClassUnsupportedConfig, "model is not set"},
		{nil, `{"load": {"prompt": "token_ids"}}`, `{}`, worker.ClassUnsupportedConfig, "completions"},
		{nil, `{}`, `{"dataset": "a.txt"}`, worker.ClassUnsupportedConfig, "dataset is a column of the grid"},
		{nil, `{"load": {"trace": "/no/such/trace"}}`, `{}`, worker.ClassUnsupportedConfig, "no such file"},
	} {
		e := measure(t, options(c.options), c.blocks, "chat", c.params)
		if e.failure == nil || e.failure.Class != c.class || !strings.Contains(e.failure.Message, c.want) {
			t.Errorf("%v %s %s: %+v, want %s with %q", c.options, c.blocks, c.params, e.failure, c.class, c.want)
		}
	}
}

func TestCaseFailsIfAllRequestsFail(t *testing.T) {
	for want, fault := range map[string]loadtest.Fault{
		"503":                      {Kind: loadtest.FaultStatus, Every: 1, Status: 503},
		"set require_done = false": {Kind: loadtest.FaultNoDone, Every: 1},
	} {
		_, addr := listen(t, loadtest.Options{Faults: []loadtest.Fault{fault}, TokenSpread: 3})
		e := measure(t, map[string]any{"url": addr, "model": "m"}, `{"load": {"osl": 9}}`, "chat", `{}`)
		if e.failure == nil || !strings.Contains(e.failure.Message, "all 10 requests failed") ||
			!strings.Contains(e.failure.Message, want) {
			t.Errorf("%+v, want %s", e.failure, want)
		}
	}
}

func TestTraceOnDisk(t *testing.T) {
	srv, addr := listen(t, loadtest.Options{Truth: true})
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	text := `{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 5, "input_length": 700, "output_length": 4, "hash_ids": [1, 3]}
{"timestamp": 9, "input_length": 20, "output_length": 5}
`
	if err := os.WriteFile(trace, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e := measure(t, map[string]any{"url": addr, "model": "m", "plan_dir": filepath.Dir(trace)},
		`{"load": {"trace": "trace.jsonl"}}`, "chat", `{}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	truth := srv.Truths()
	slices.SortFunc(truth, func(a, b loadtest.Truth) int { return a.Asked - b.Asked })
	if len(truth) != 3 || truth[0].Prompt != 600 || truth[1].Prompt != 700 || truth[2].Prompt != 20 ||
		truth[2].Asked != 5 {
		t.Errorf("%+v", truth)
	}
	first := func(tr loadtest.Truth) string {
		var b struct{ Messages []struct{ Content string } }
		if err := json.Unmarshal(tr.Body, &b); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.Messages[0].Content)[:512], " ")
	}
	if first(truth[0]) != first(truth[1]) {
		t.Error("prompts with the same first hash id begin differently")
	}
}

func TestStatusLine(t *testing.T) {
	t.Parallel()
	got := status(Progress{Elapsed: time.Second, Succeeded: 2, InFlight: 4, Total: 8, Tokens: 10, TTFT: 150})
	if want := "2 of 8 requests, 2.0/s, 10 messages/s, TTFT 150.0 ms, 4 open"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := status(Progress{Warmup: true, InFlight: 1}), "warm-up: 0 requests, 1 open"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
