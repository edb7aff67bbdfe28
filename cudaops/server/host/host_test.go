package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
)

// said records the messages of a host in order.
type said struct {
	mu       sync.Mutex
	rows     map[int64]worker.Row
	failures map[int64]worker.Failure
	attached map[int64][]worker.Attachment
	logs     []string
}

func newSaid() *said {
	return &said{rows: map[int64]worker.Row{}, failures: map[int64]worker.Failure{},
		attached: map[int64][]worker.Attachment{}}
}

func (e *said) Start(int64)                                    {}
func (e *said) Result(seq int64, rows []worker.Row, _ float64) { e.rows[seq] = rows[0] }
func (e *said) Error(seq int64, f worker.Failure)              { e.failures[seq] = f }
func (e *said) Attach(seq int64, a worker.Attachment)          { e.attached[seq] = append(e.attached[seq], a) }
func (e *said) Log(level, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logs = append(e.logs, level+": "+fmt.Sprintf(format, args...))
}

func (e *said) log() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.logs, "\n")
}

func (e *said) names(seq int64) []string {
	var out []string
	for _, a := range e.attached[seq] {
		out = append(out, a.Name)
	}
	slices.Sort(out)
	return out
}

// bench is a host with a stand-in for its server.
type bench struct {
	options map[string]any
	blocks  string
	open    func() (nvml.API, error)
	starts  string
	spool   string
	env     map[string]string
	again   time.Duration
	steady  time.Duration
}

func newBench(t *testing.T, fault string, more ...string) *bench {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{starts: filepath.Join(t.TempDir(), "starts"), spool: t.TempDir(),
		open: func() (nvml.API, error) { return nil, nvml.ErrNotBuilt }}
	command := []any{self, "-port", "{port}", "-tp", "{tensor_parallel_size}", "-starts", b.starts, "--fault", fault}
	for _, a := range more {
		command = append(command, a)
	}
	b.options = map[string]any{
		"command": command, "model": "m", "labels": []any{"experiment_id"},
		"extra_inputs": map[string]any{"return_token_ids": true},
		"ready":        map[string]any{"within": "60s"}, "stop": map[string]any{"within": "10s"},
	}
	b.blocks = `{"load": {"prompt": "token_ids"}, "iteration": {"batch_size": 2, "seq_len": 24, "max_tokens": 4, ` +
		`"warmup_iterations": 1, "profile_iterations": 3}}`
	return b
}

// run runs cases, given by their parameters.
func (b *bench) run(t *testing.T, cases ...string) *said {
	t.Helper()
	env := map[string]string{"HOST_TEST_SERVER": "1"}
	maps.Copy(env, b.env)
	h := New(worker.Init{Kind: "server", Options: b.options, Blocks: json.RawMessage(b.blocks), Spool: b.spool, Env: env},
		b.open)
	h.log = server.NewLog(nil)
	h.poll, h.grown = 10*time.Millisecond, 100*time.Millisecond
	h.steady = b.steady
	if b.again > 0 {
		h.again = b.again
	}
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := newSaid()
	in := make(chan worker.Case, len(cases))
	for i, params := range cases {
		in <- worker.Case{Seq: int64(i + 1), ID: fmt.Sprintf("%032d", i), Op: "completions", Params: json.RawMessage(params),
			Attempt: 1}
	}
	close(in)
	if err := h.Serve(t.Context(), in, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bench) started(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(b.starts)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// TestSearchLoadsAServer checks that a search runs on the server of a case.
func TestSearchLoadsAServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	b.blocks = `{"load": {"prompt": "token_ids", "isl": 8, "osl": 2, "requests": 4}, "search": {"over": "concurrency", ` +
		`"max": 2, "slo": {"latency": 60000}}}`
	out := b.run(t, `{"tensor_parallel_size": 1}`)
	if row := out.rows[1]; row["search_met"] != true || row["search_value"] != 2.0 || len(b.started(t)) != 1 {
		t.Errorf("%v, %+v", row, out.failures)
	}
}

// TestServerGetsReadyForEachLoad checks that the short load that a server has to answer first has no setting that needs
// more requests.
func TestServerGetsReadyForEachLoad(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]string{
		"users":           `"request_rate": 40, "users": 2, "turns": 2, "requests": 4`,
		"over_saturation": `"request_rate": 40, "over_saturation": 10, "requests": 4`,
		"prefills":        `"concurrency": 4, "prefill_concurrency": 2, "requests": 4`,
	} {
		b := newBench(t, "")
		b.options["ready"] = map[string]any{"within": "5s"}
		b.blocks = `{"load": {"prompt": "token_ids", "isl": 8, "osl": 2, ` + load + `}}`
		if out := b.run(t, `{"tensor_parallel_size": 1}`); out.rows[1]["succeeded"] != 4 {
			t.Errorf("%s: %v, %+v", name, out.rows[1], out.failures)
		}
	}
}

func TestCellsOfTwoServers(t *testing.T) {
	t.Parallel()
	trace, err := filepath.Abs("../../trace/testdata/b200__eager_trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, "", "-traces", "{trace_dir}", "-trace", trace)
	b.options["profiler"] = map[string]any{}
	b.blocks = strings.TrimSuffix(b.blocks, "}") + `, "trace": {"requests": 2, "osl": 2}}`
	e := b.run(t, `{"experiment_id": "E1.1", "tensor_parallel_size": 1, "batch_size": 2}`,
		`{"experiment_id": "E1.1b", "tensor_parallel_size": 1, "batch_size": 4}`,
		`{"experiment_id": "E1.2", "tensor_parallel_size": 2, "batch_size": 2}`)
	if len(e.failures) > 0 {
		t.Fatalf("%+v\n%s", e.failures, e.log())
	}
	if got := b.started(t); len(got) != 2 {
		t.Errorf("%d starts (%q), want one a server", len(got), got)
	}
	row := e.rows[2]
	for name, want := range map[string]any{"iterations": 3, "requests": 12, "gpus": 1, "coll_call_num": int64(74),
		"traced_ranks": 1, "token_source": "token_ids", "output_length": 4.0, "input_length": 20.0} {
		if fmt.Sprint(row[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, row[name], want)
		}
	}
	if e.rows[3]["coll_call_num"] != int64(148) || e.rows[3]["traced_ranks"] != 2 {
		t.Errorf("two ranks: %v collectives of %v ranks", e.rows[3]["coll_call_num"], e.rows[3]["traced_ranks"])
	}
	if pct, ok := row["comm_overhead"].(float64); !ok || !(pct > 0 && pct <= 100) {
		t.Errorf("comm_overhead is %v", row["comm_overhead"])
	}
	iteration, tokens := row["iteration_wall_clock"].(float64), row["throughput_tokens_sec"].(float64)
	if got := tokens * iteration; !(got >= 15.99 && got <= 16.01) {
		t.Errorf("tokens/s x iteration is %v tokens, want 4 answers of 4", got)
	}
	want := []string{"experiment_facts.json", "kineto_trace_0.json.gz", "kineto_trace_1.json.gz", "server.log",
		"timing_stats_0.json", "timing_stats_1.json"}
	for _, name := range want {
		if !slices.Contains(e.names(3), name) {
			t.Errorf("there is no %s: %v", name, e.names(3))
		}
	}
	for _, a := range e.attached[3] {
		if a.Name != "timing_stats_1.json" {
			continue
		}
		var s map[string]any
		if err := json.Unmarshal(a.Data, &s); err != nil {
			t.Fatal(err)
		}
		if n := len(s["iteration_times"].([]any)); n != 3 || s["ttft_avg"] == nil || s["traced"] == nil {
			t.Errorf("%s", a.Data)
		}
	}
}

// TestRepeatsHaveAllIterations checks that the rate of repeated iterations is relative to the time of all of them.
func TestRepeatsHaveAllIterations(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	b.blocks = strings.Replace(b.blocks, `"token_ids"`, `"token_ids", "repeats": 2`, 1)
	row := b.run(t, `{"tensor_parallel_size": 1}`).rows[1]
	iteration, tokens := row["iteration_wall_clock"].(float64), row["throughput_tokens_sec"].(float64)
	if got := tokens * iteration; !(got >= 7.99 && got <= 8.01) || fmt.Sprint(row["iterations"]) != "6" {
		t.Errorf("%v iterations; tokens/s x iteration is %v tokens, want 2 answers of 4", row["iterations"], got)
	}
}

func TestMissingTraceIsNull(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	b.options["profiler"] = map[string]any{}
	b.blocks = strings.TrimSuffix(b.blocks, "}") + `, "trace": {}}`
	e := b.run(t, `{"tensor_parallel_size": 1}`)
	row := e.rows[1]
	if row == nil || row["ttft"] == nil {
		t.Fatalf("the measured row is lost: %+v", e.failures)
	}
	for _, name := range []string{"comm_overhead", "coll_call_num", "traced_ranks"} {
		if v, ok := row[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	if why := fmt.Sprint(row["trace_error"]); !strings.Contains(why, "was it started with its profiler") {
		t.Errorf("trace_error is %s", why)
	}
}

// TestInvalidSettings checks that a case with invalid load settings starts no server, and that the
// next case is measured.
func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t, "")
	b.blocks = `{"load": {"prompt": "token_ids", "isl": 4, "osl": 2}}`
	e := b.run(t, `{"tensor_parallel_size": 1, "requests": 0.5}`, `{"tensor_parallel_size": 1, "requests": 2}`)
	if f := e.failures[1]; f.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(f.Message, "requests is a number 0.5; a whole number is needed") {
		t.Errorf("got %+v", f)
	}
	if f, failed := e.failures[2]; failed || len(b.started(t)) != 1 {
		t.Errorf("the next case: %+v, servers %q", f, b.started(t))
	}
}

// Requests go to the address on which the server was configured to listen.
func TestAddressesOfAServer(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"::1", "[::1]", "::", "0.0.0.0", "localhost"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			if l, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(at, "[]"), "0")); err != nil {
				t.Skip(err)
			} else {
				l.Close()
			}
			b := newBench(t, "", "-host", strings.Trim(at, "[]"))
			b.options["host"] = at
			if e := b.run(t, `{"tensor_parallel_size": 1}`); e.rows[1] == nil {
				t.Errorf("%+v", e.failures)
			}
		})
	}
}

func TestNoiseIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, "noise")
	e := b.run(t, `{"tensor_parallel_size": 1}`)
	if e.rows[1] == nil {
		t.Fatalf("%+v", e.failures)
	}
	for _, a := range e.attached[1] {
		if a.Name == "server.log" && (len(a.Data) > worker.MaxAttachmentData ||
			!bytes.Contains(a.Data, []byte("bytes left out"))) {
			t.Errorf("the log has %d bytes", len(a.Data))
		}
	}
}

func TestInvalidPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change       func(b *bench)
		params, want string
	}{
		{func(b *bench) {}, `{"tensor_parallel_size": 1, "batchsize": 4}`, `the column "batchsize", which no placeholder`},
		{func(b *bench) { b.options["starts_by"] = []any{"dtype"} }, `{"tensor_parallel_size": 1}`,
			`starts_by names "dtype", and the case has no such column`},
		{func(b *bench) {}, `{"seq_len": 64}`, "has the placeholder {tensor_parallel_size}"},
		{func(b *bench) {}, `{"tensor_parallel_size": 1, "seq_len": 4}`,
			"seq_len is the length of prompt and answer together"},
		{func(b *bench) {}, `{"tensor_parallel_size": "two"}`, "tensor_parallel_size is two; a number of ranks is needed"},
		{func(b *bench) { b.options["command"] = []any{"/no/such/server"} }, `{"tensor_parallel_size": 1}`,
			"the server's command: "},
	} {
		b := newBench(t, "")
		c.change(b)
		f := b.run(t, c.params).failures[1]
		if !strings.Contains(f.Message, c.want) || f.Class != worker.ClassUnsupportedConfig {
			t.Errorf("%s: %+v, want %q", c.params, f, c.want)
		}
	}
}
