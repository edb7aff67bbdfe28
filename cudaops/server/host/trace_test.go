package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"aicplan/cudaops/load"
	"aicplan/cudaops/trace"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// stored is a vLLM trace with 74 collectives.
const stored = "../../trace/testdata/b200__eager_trace.json.gz"

// traced writes traces to files: complete, truncated, without kernels, empty.
func traced(t *testing.T) map[string]string {
	t.Helper()
	text := `{"traceEvents": [
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_x","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":3,"dur":4,"args":{"device":0}}]}`
	dir, out := t.TempDir(), map[string]string{}
	for name, content := range map[string]string{
		"stepped": strings.Replace(text, `"traceEvents": [`,
			`"traceEvents": [{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":9,"tid":9,"ts":1,"dur":2},`, 1),
		"whole": text, "cut": text[:len(text)-20], "empty": "",
		"untimed": strings.Replace(text, `"traceEvents": [`,
			`"traceEvents": [{"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":-1},`, 1),
		"none": `{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "add", "ts": 1, "dur": 1}]}`,
	} {
		out[name] = filepath.Join(dir, name+".json")
		if err := os.WriteFile(out[name], []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A broken trace of one rank must not affect that of the other, and the row must report what is missing.
func TestIncompleteTraces(t *testing.T) {
	t.Parallel()
	files := traced(t)
	for _, c := range []struct {
		second string
		ranks  int
		want   string
	}{
		{"cut", 2, "rank1.1.pt.trace.json: the file ends in the middle"},
		{"untimed", 2, "rank1.1.pt.trace.json: left out: 1 kernel without a usable time"},
		{"none", 1, "trace of rank 1: no kernel of a device is in it"},
		{"empty", 1, "there are traces of 1 of 2 ranks"},
	} {
		t.Run(c.second, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "", "-traces", "{trace_dir}", "-trace", files["whole"]+","+files[c.second])
			b.options["profiler"] = map[string]any{}
			b.blocks = strings.TrimSuffix(b.blocks, "}") + `, "trace": {"requests": 2, "osl": 2}}`
			e := b.run(t, `{"tensor_parallel_size": 2}`)
			row := e.rows[1]
			if row == nil {
				t.Fatalf("%+v", e.failures)
			}
			if row["traced_ranks"] != c.ranks || !strings.Contains(fmt.Sprint(row["trace_error"]), c.want) {
				t.Errorf("%v ranks, %v; want %d, %q", row["traced_ranks"], row["trace_error"], c.ranks, c.want)
			}
			for _, column := range []string{"coll_call_num", "load_imbalance"} {
				if v, ok := row[column]; ok != (c.second == "untimed") {
					t.Errorf("%s is %v", column, v)
				}
			}
			if !slices.Contains(e.names(1), "kineto_trace_0.json") {
				t.Errorf("the whole trace is lost: %v", e.names(1))
			}
		})
	}
}

// If only one rank has steps, the figures of both are those of the span.
func TestStepsOfOneRank(t *testing.T) {
	t.Parallel()
	files := traced(t)
	for _, order := range []string{"stepped,whole", "whole,stepped"} {
		first, second, _ := strings.Cut(order, ",")
		tr := &tracing{ask: &ask{gpus: 2}, ranks: map[int]*rankFigures{}}
		for rank, name := range []string{first, second} {
			results, err := whole(t.Context(), files[name], time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			tr.ranks[rank] = figures(results[0])
		}

		row := worker.Row{}
		tr.into(row)
		if row["comm_overhead_of"] != "span" || row["comm_overhead"] != 100.0/3 || row["trace_wall_ms"] != 0.006 {
			t.Errorf("%s: %v %% of the %v, which is %v ms", order, row["comm_overhead"], row["comm_overhead_of"],
				row["trace_wall_ms"])
		}
	}
}

// Stages of a pipeline run different kernels.
func TestKernelsOfAllRanks(t *testing.T) {
	t.Parallel()
	tr := &tracing{ask: &ask{gpus: 2}, ranks: map[int]*rankFigures{}}
	for rank, name := range []string{"norm", "head"} {
		text := fmt.Sprintf(`{"traceEvents": [
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2000,"args":{"device":0}},
{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":7,"ts":2003,"dur":1000,"args":{"device":0}}]}`, name)
		results, err := trace.ReadFrom(strings.NewReader(text), name, trace.Options{Top: allKernels})
		if err != nil {
			t.Fatal(err)
		}
		tr.ranks[rank] = figures(results[0])
	}

	row := worker.Row{}
	tr.into(row)
	if row["kernels"] != `{"gemm":4,"head":1,"norm":1}` {
		t.Errorf("kernels are %v", row["kernels"])
	}
}

// A trace that is still being written is read again.
func TestGrowingTrace(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "t.json.gz")
	if err := os.WriteFile(file, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{})
	go func() {
		<-looked
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(data[len(data)/2:])
		}
		if err != nil {
			t.Error(err)
		}
		f.Close()
	}()
	before := sizeOf(file)
	close(looked)
	results, err := whole(t.Context(), file, time.Minute)
	if err != nil || results[0].Truncated || sizeOf(file) == before {
		t.Errorf("%v %v", results, err)
	}
	// A truncated trace that does not grow is accepted.
	if err := os.Truncate(file, before); err != nil {
		t.Fatal(err)
	}
	results, err = whole(t.Context(), file, time.Millisecond)
	if err != nil || !results[0].Truncated {
		t.Errorf("%v %v", results, err)
	}
}

// whenWaited runs a function once, when a caller starts to wait for the context.
type whenWaited struct {
	context.Context
	once func()
}

func (w whenWaited) Done() <-chan struct{} {
	w.once()
	return w.Context.Done()
}

// An empty file is waited for too. If it remains empty, that is an error.
func TestTraceThatIsEmptyAtFirst(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "t.json.gz")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := whole(t.Context(), file, time.Millisecond); err == nil {
		t.Error("an empty trace was read")
	}
	ctx := whenWaited{t.Context(), sync.OnceFunc(func() {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Error(err)
		}
	})}
	results, err := whole(ctx, file, time.Minute)
	if err != nil || len(results) == 0 || results[0].Truncated {
		t.Errorf("%v %v", results, err)
	}
}

// GPU figures must cover all GPUs or none.
func TestNamesOfGPUs(t *testing.T) {
	t.Parallel()
	for want, gpus := range map[string][]GPU{
		"": {{UUID: "GPU-a"}, {}}, "GPU-a GPU-b": {{UUID: "GPU-a"}, {UUID: "GPU-b"}},
	} {
		if got := uuids(gpus); got != want {
			t.Errorf("%v: %q, want %q", gpus, got, want)
		}
	}
}

// A hanging server must not block its case or the next one.
func TestHangingServers(t *testing.T) {
	t.Parallel()
	t.Run("load", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "hangs in the middle")
		b.options["answers_within"] = "10ms"
		e := b.run(t, `{"tensor_parallel_size": 1}`, `{"tensor_parallel_size": 1, "batch_size": 4}`)
		f := e.failures[1]
		if f.Class != worker.ClassTimeout || !strings.Contains(f.Message, "the server hangs: it has ") ||
			!strings.Contains(f.Message, " and sent nothing for 10ms") {
			t.Errorf("%+v", f)
		}
		if len(b.started(t)) != 2 {
			t.Errorf("the server that hung was kept: %q", b.started(t))
		}
	})
	t.Run("trace", func(t *testing.T) {
		t.Parallel()
		within(t, 500*time.Millisecond, func(limit time.Duration) string {
			b := newBench(t, "hangs while it is traced", "-traces", "{trace_dir}", "-trace", stored)
			b.options["profiler"] = map[string]any{}
			b.blocks = fmt.Sprintf(`%s, "trace": {"requests": 2, "osl": 4, "within": %q}}`, strings.TrimSuffix(b.blocks, "}"),
				limit)
			e := b.run(t, `{"tensor_parallel_size": 1}`)
			if row := e.rows[1]; row == nil || !strings.Contains(fmt.Sprint(row["trace_error"]),
				"were not answered within "+limit.String()) {
				return fmt.Sprintf("%v %+v", row["trace_error"], e.failures)
			}
			return ""
		})
	})
	t.Run("next", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "refuses the trace", "-traces", "{trace_dir}", "-trace", stored)
		b.options["profiler"] = map[string]any{}
		b.blocks = strings.TrimSuffix(b.blocks, "}") + `, "trace": {"requests": 2, "osl": 4, "within": "60s"}}`
		b.again = 50 * time.Millisecond
		e := b.run(t, `{"tensor_parallel_size": 1}`, `{"tensor_parallel_size": 1}`)
		if e.rows[1] == nil || e.rows[2] == nil || len(b.started(t)) != 2 {
			t.Errorf("%d starts, %+v", len(b.started(t)), e.failures)
		}
	})
}

// The facts contain the communication variables from all places, but no secrets.
func TestEnvironmentInFacts(t *testing.T) {
	t.Parallel()
	got := communication([]string{"NCCL_NVLS_ENABLE=0", "NCCL_DEBUG=INFO", "NCCL_VERSION=2.28.3-1", "API_KEY=k",
		"NVSHMEM_DISABLE_NVLS=1", "NCCL_DEBUG=WARN", "HF_TOKEN=secret"})
	if fmt.Sprint(got) != "map[NCCL_DEBUG:WARN NCCL_NVLS_ENABLE:0 NVSHMEM_DISABLE_NVLS:1]" {
		t.Error(got)
	}
	b := newBench(t, "")
	b.env = map[string]string{"HF_TOKEN": "s3cr3t"}
	e := b.run(t, `{"tensor_parallel_size": 1}`)
	for _, a := range e.attached[1] {
		if strings.Contains(string(a.Data), "s3cr3t") {
			t.Errorf("%s has the secret", a.Name)
		}
	}
	if !slices.Contains(e.names(1), FactsFile) {
		t.Error(e.names(1))
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := silence{patience: 10 * time.Second, began: now}
	for i, c := range []struct {
		after int // seconds
		p     load.Progress
		hangs bool
	}{
		{0, load.Progress{InFlight: 4}, false},
		{9, load.Progress{InFlight: 4}, false},
		{10, load.Progress{InFlight: 4, Tokens: 1}, false}, // it sends tokens
		{19, load.Progress{InFlight: 4, Tokens: 1}, false},
		{25, load.Progress{InFlight: 0, Tokens: 1}, false}, // no open requests
		{34, load.Progress{InFlight: 4, Tokens: 1}, false},
		{35, load.Progress{InFlight: 4, Tokens: 1}, true},
		{36, load.Progress{InFlight: 3, Tokens: 1, Failed: 1}, false},
	} {
		if err := s.see(c.p, now.Add(time.Duration(c.after)*time.Second)); (err != nil) != c.hangs {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// nsys is a stand-in that runs a command and then writes files according to its mode.
const nsys = `#!/bin/sh
if [ "$1" = export ]; then
    case $(cat "$6") in
    broken) echo 'ERROR: the report is broken' >&2; exit 3 ;;
    *) exec cp "$(dirname "$0")/$(cat "$6").sqlite" "$5" ;;
    esac
fi
dir=$1 mode=$2
shift 2
trap : TERM
"$@" &
while ! wait $!; do kill -0 $! 2> /dev/null || break; done
case $mode in
report | broken | untimed) echo "$mode" > "$dir/nsys.nsys-rep" ;;
recording)
    echo x > "$dir/nsys.qdstrm"
    echo 'Unable to find QdstrmImporter' >&2
    ;;
hangs)
    echo x > "$TMPDIR/nsys-report-86ca.qdstrm"
    echo "Generating '$TMPDIR/nsys-report-86ca.qdstrm'"
    while :; do sleep 60 & wait $!; done
    ;;
esac
`

func TestNsysPass(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "nsys")
	testutil.WriteProgram(t, script, nsys)
	for mode, more := range map[string]string{"report": "", "untimed": ", (300, 299, 0, 2)",
		"ranks": ", (90, 95, 1, 2), (100, 170, 1, 1)"} {
		db, err := sqlite3.Open("file:" + filepath.Join(filepath.Dir(script), mode+".sqlite"))
		if err != nil {
			t.Fatal(err)
		}
		err = db.Exec(`CREATE TABLE StringIds (id, value);
INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_x'), (2, 'gemm');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, shortName);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ` + strings.TrimPrefix(more+", (100, 150, 0, 1), (120, 200, 0, 2)", ", "))
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}

	// The GPUs of a report are ranks in their order, also if the first kernel is another one's.
	report, of := filepath.Join(t.TempDir(), "a.nsys-rep"), &tracing{ranks: map[int]*rankFigures{}}
	err := errors.Join(os.WriteFile(report, []byte("ranks"), 0o644), new(Host).readNsys(t.Context(), report, script, of))
	if err != nil || len(of.ranks) != 2 || of.ranks[0].result.Device != "0" || of.ranks[1].result.Device != "1" {
		t.Fatalf("%+v, %v", of.ranks, err)
	}
	if r := of.ranks[1]; r.WaitNs == nil || *r.WaitNs != 20 || r.result.Imbalance == nil ||
		*r.result.Imbalance != 100.0/75 {
		t.Errorf("%+v, note %q", r, of.note)
	}

	for _, c := range []struct {
		mode, want string
		file       string
	}{
		{"report", "", "nsys_0.nsys-rep"},
		{"broken", "nsys export: exit status 3: ERROR: the report is broken", "nsys_0.nsys-rep"},
		{"untimed", "the report of nsys: left out: 1 kernel without a usable time", "nsys_0.nsys-rep"},
		{"recording", "recorded and made no report of it: its importer (QdstrmImporter) is missing", "nsys_0.qdstrm"},
		{"hangs", "did not end within LIMIT and were killed; what was recorded by then is kept as nsys_0.qdstrm, and may " +
			"be incomplete; the last lines:", "nsys_0.qdstrm"},
		{"nothing", "nsys wrote no report and recorded nothing: a recording by --capture-range=cudaProfilerApi needs a " +
			"server that calls cudaProfilerStart", ""},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			limit := time.Minute
			if c.mode == "hangs" {
				limit = 3 * time.Second
			}
			within(t, limit, func(limit time.Duration) string {
				b := newBench(t, "", "-traces", "{trace_dir}")
				b.options["profiler"] = map[string]any{"nsys": []any{script, "{trace_dir}", c.mode},
					"nsys_body": map[string]any{"activities": []any{"CUDA_PROFILER"}}}
				b.blocks = fmt.Sprintf(`%s, "trace": {"torch": false, "nsys": true, "requests": 2, "osl": 2, "within": %q}}`,
					strings.TrimSuffix(b.blocks, "}"), limit)
				e := b.run(t, `{"tensor_parallel_size": 1}`)
				row := e.rows[1]
				if row == nil {
					return fmt.Sprintf("%+v\n%s", e.failures, e.log())
				}
				why, want := "", strings.Replace(c.want, "LIMIT", limit.String(), 1)
				if v, ok := row["trace_error"]; ok {
					why = fmt.Sprint(v)
				}
				if !strings.Contains(why, want) || want == "" && why != "" {
					return fmt.Sprintf("trace_error is %q, want %q", why, want)
				}
				if c.file != "" && !slices.Contains(e.names(1), c.file) {
					return fmt.Sprintf("no %s: %v", c.file, e.names(1))
				}
				if n, ok := row["coll_call_num"]; ok != (c.mode == "report" || c.mode == "untimed") || ok && n != int64(1) {
					return fmt.Sprintf("coll_call_num is %v", n)
				}
				return ""
			})
		})
	}
}
