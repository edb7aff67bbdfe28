//go:build linux

package comm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// latencyOf is a machine with predictable times: 5 us plus 1 ns per 10 bytes, and more for more ranks.
func latencyOf(op fakeOp) time.Duration {
	return time.Duration(5000+op.Bytes/10+int64(op.Ranks)*1000) * time.Nanosecond
}

func TestSweepMakesOneCommunicatorPerNumberOfGPUs(t *testing.T) {
	b := newBench(t, 4, nil, quick)
	b.fake.Latency = latencyOf
	for _, op := range Collectives {
		for _, dtype := range []string{"half", "int8"} {
			for _, gpus := range []int{4, 2} {
				for _, size := range []int{64, 256, 1024 + 24} {
					row := b.must(OpNCCL, ncclCase(op, dtype, gpus, size))
					l, err := newLayout(op, dataTypes[dtype], gpus, int64(size))
					if err != nil {
						t.Fatal(err)
					}
					want := latencyOf(fakeOp{Bytes: l.bytes, Ranks: gpus}).Seconds()
					if got := row["latency"].(float64); !near(got, want*1e3) {
						t.Errorf("%s %s %d GPUs %d: latency %v ms, the machine takes %v s", op, dtype, gpus, size, got, want)
					}
					alg, bus := l.gigabytesPerSecond(want)
					if !near(row["algbw_gb_s"].(float64), alg) || !near(row["busbw_gb_s"].(float64), bus) {
						t.Errorf("%s: bandwidths %v and %v, want %v and %v", op, row["algbw_gb_s"], row["busbw_gb_s"], alg, bus)
					}
					if row["checked"].(int64) < 2*l.recv*int64(gpus) {
						t.Errorf("%s: only %v elements were checked", op, row["checked"])
					}
					if row["method"] != MethodEager || row["used_cuda_graph"] != false {
						t.Errorf("%s: method %v, graph %v", op, row["method"], row["used_cuda_graph"])
					}
				}
			}
		}
	}
	if n := b.fake.Happened("init"); n != 6 {
		t.Errorf("%d ranks joined communicators; 2 + 4 are enough for the whole sweep", n)
	}
	if n := b.ranks.started(); n != 1 {
		t.Errorf("the ranks were started %d times", n)
	}
}

func TestCollectiveNamesAreOps(t *testing.T) {
	b := newBench(t, 2, nil, "")
	row := b.must(AllGather, `{"nccl_dtype":"half","num_gpus":2,"message_size":1024}`)
	if row["op_name"] != AllGather || row["kernel_source"] != "NCCL" || row["nccl_version"] != "2.28.9" {
		t.Errorf("row: %v", row)
	}
}

func TestHello(t *testing.T) {
	t.Setenv("NCCL_ALGO", "Ring")
	t.Setenv("NCCL_NVLS_ENABLE", "0")
	h := newBench(t, 4, nil, "").hello
	if h.Framework != "NCCL" || h.Version != "2.28.9" || h.Device != "Fake GPU" || h.Env["gpus"] != "4" {
		t.Errorf("hello: %+v", h)
	}
	// other variables may be set in the test's environment
	for _, want := range []string{"NCCL_ALGO=Ring", "NCCL_NVLS_ENABLE=0"} {
		if !slices.Contains(strings.Fields(h.Env["nccl_env"]), want) {
			t.Errorf("nccl_env is %q, must have %q", h.Env["nccl_env"], want)
		}
	}
	if h.Env["gpu_uuids"] != "GPU-0 GPU-1 GPU-2 GPU-3" {
		t.Errorf("gpu_uuids: %q", h.Env["gpu_uuids"])
	}
	if h.Env["driver"] != "580.1.2" {
		t.Errorf("driver: %q, so that rows of tasks lack it", h.Env["driver"])
	}
}

func TestDevicesOfTheRuntime(t *testing.T) {
	for _, devices := range []any{[]any{3.0, 1.0}, []int{3, 1}} {
		for _, method := range []string{MethodEager, MethodGraph} {
			b := newBench(t, 4, map[string]any{"devices": devices, "method": method}, quick)
			if b.hello.Env["gpu_uuids"] != "GPU-3 GPU-1" || b.hello.Env["gpus"] != "2" {
				t.Errorf("hello: %v", b.hello.Env)
			}
			b.must(OpNCCL, ncclCase(AllReduce, "half", 2, 1024))
			b.fails(worker.ClassUnsupportedConfig, "this node has 2", OpNCCL, ncclCase(AllReduce, "half", 4, 1024))
			if used := b.fake.Used(); !slices.Equal(used, []int{1, 3}) {
				t.Errorf("%s: devices %v were used", method, used)
			}
		}
	}
	if _, err := pickDevices([]int{4}, 4); err == nil || !strings.Contains(err.Error(), "CUDA_VISIBLE_DEVICES") {
		t.Errorf("device 4 of 4: %v", err)
	}
	if got, err := pickDevices([]int{2, 3}, 2); err != nil || !slices.Equal(got, []cuda.Device{0, 1}) {
		t.Errorf("the two that are visible: %v, %v", got, err)
	}
}

func TestGraphMethodTakesTheSlowestRank(t *testing.T) {
	b := newBench(t, 4, map[string]any{"method": "graph"}, quick)
	b.fake.Latency = latencyOf
	for _, gpus := range []int{2, 4} {
		row := b.must(OpNCCL, ncclCase(AllReduce, "half", gpus, 4096))
		want := latencyOf(fakeOp{Bytes: 8192, Ranks: gpus}).Seconds() * 1e3
		if !near(row["latency"].(float64), want) {
			t.Errorf("latency %v, want %v", row["latency"], want)
		}
		if row["used_cuda_graph"] != true || row["method"] != MethodGraph {
			t.Errorf("row: %v", row)
		}
	}
	if n := b.fake.Happened("graph"); n != 6 {
		t.Errorf("%d graphs; a case has one per rank, 2 + 4", n)
	}
}

// Captures of one collective differ by some percent and over time. Each visit captures a new graph and
// replays it often enough that one disturbance of the host does not dominate.
func TestEveryVisitOfTheGraphMethodHasItsOwnGraph(t *testing.T) {
	b := newBench(t, 2, map[string]any{"method": "graph"}, `{"passes":3,"max_passes":3}`)
	b.fake.Latency = latencyOf
	row := b.must(OpNCCL, ncclCase(AllReduce, "half", 2, 4096))
	if row["passes"] != 3 || row["samples"].(int) < 3*graphReplays*graphBlocks {
		t.Errorf("%v passes, %v samples", row["passes"], row["samples"])
	}
	if got := b.fake.Happened("graph"); got != 2*3 {
		t.Errorf("%d graphs of 2 ranks in 3 visits", got)
	}
	if want := latencyOf(fakeOp{Bytes: 8192, Ranks: 2}).Seconds() * 1e3; !near(row["latency"].(float64), want) {
		t.Errorf("latency %v, want %v", row["latency"], want)
	}
}

// TestReplaysAheadDoNotCount counts executions on the devices.
func TestReplaysAheadDoNotCount(t *testing.T) {
	b := newBench(t, 2, map[string]any{"method": "graph"}, `{"passes":2,"max_passes":2}`)
	b.fake.Latency = latencyOf
	row := b.must(OpNCCL, ncclCase(AllReduce, "half", 2, 4096))
	samples, executions := row["samples"].(int), row["executions"].(int)
	if samples < 2*12*graphBlocks {
		t.Errorf("%d samples in two visits", samples)
	}
	const block = 10 // executions of 7.8 us
	if executions < 2*samples*block || b.fake.Happened("all_reduce") < 2*samples*block {
		t.Errorf("%d executions, %d happened: no replay behind another", executions, b.fake.Happened("all_reduce"))
	}
}

// The first eager executions of a small message take much longer than the collective itself. Blocks and
// replays must be sized by the time of the graph.
func TestGraphsFollowTheirOwnTime(t *testing.T) {
	b := newBench(t, 2, map[string]any{"method": "graph"}, `{"passes":2,"max_passes":2}`)
	const took, slow = 8 * time.Microsecond, 90 * time.Microsecond
	calls := 0
	b.fake.Latency = func(o fakeOp) time.Duration {
		if o.Bytes == 16 {
			return took // the synchronization of the devices
		}
		// One to verify and three to estimate the time per execution.
		if calls++; calls <= 4 {
			return slow
		}
		return took
	}
	row := b.must(OpNCCL, ncclCase(AllReduce, "half", 2, 4096))
	if want := took.Seconds() * 1e3; !near(row["latency"].(float64), want) {
		t.Errorf("latency %v, want %v", row["latency"], want)
	}
	if got := row["block_ms"].(float64); !(got >= 0.95*briefBlock.Seconds()*1e3) {
		t.Errorf("blocks of %v ms", got)
	}
	if got := row["samples"].(int); got < 2*12*graphBlocks {
		t.Errorf("%d samples in two visits", got)
	}
	if got := b.fake.Happened("graph"); got != 2*3 {
		t.Errorf("%d graphs of 2 ranks; the first visit captures one more", got)
	}
}

func TestMethodOfACaseComesFirst(t *testing.T) {
	b := newBench(t, 2, map[string]any{"method": "graph"}, "")
	row := b.must(OpNCCL, `{"op_name":"all_reduce","nccl_dtype":"half","num_gpus":2,"message_size":64,"method":"eager"}`)
	if row["method"] != MethodEager {
		t.Errorf("method %v", row["method"])
	}
	b = newBench(t, 2, nil, `{"graph":"require"}`)
	if row := b.must(OpNCCL, ncclCase(AllReduce, "half", 2, 64)); row["method"] != MethodGraph {
		t.Errorf("method %v", row["method"])
	}
	b.fails(worker.ClassUnsupportedConfig, `parameter "method" is "fast"; the runtime has eager, graph`, OpNCCL,
		`{"op_name":"all_reduce","nccl_dtype":"half","num_gpus":2,"message_size":64,"method":"fast"}`)
}

func TestReferenceProtocolCountsAsTheCollector(t *testing.T) {
	b := newBench(t, 2, nil, `{"protocol":"reference"}`)
	row := b.must(OpNCCL, ncclCase(AllReduce, "int8", 2, 4096))
	// One to verify, 40 to warm up and 100 timed, both after a synchronization, one to check again.
	if n := b.fake.Happened("all_reduce"); n != 1+(1+40)+(1+100)+1 {
		t.Errorf("%d executions", n)
	}
	if row["protocol"] != measure.ProtocolReference || row["samples"] != 1 {
		t.Errorf("row: %v", row)
	}
	if iterationsFor(16<<20) != 100 || iterationsFor(16<<20+1) != 60 {
		t.Error("a message above 16 MiB is executed 60 times, others 100 times")
	}
}

func TestLongExecutionsAreNotRepeatedAsOften(t *testing.T) {
	b := newBench(t, 2, nil, `{"passes":2,"min_samples":3}`)
	b.fake.Latency = func(fakeOp) time.Duration { return 2 * time.Millisecond }
	row := b.must(OpNCCL, ncclCase(AllReduce, "half", 2, 4096))
	if !near(row["latency"].(float64), 2) || row["samples"] != 6 || row["block_ms"] != 20.0 {
		t.Errorf("row: %v", row)
	}
	if n := b.fake.Happened("all_reduce"); n > 80 {
		t.Errorf("%d executions of 2 ms each", n)
	}
}

// Cases are visited in turn, so that a slow period of the machine affects one visit of each case, and the
// fastest visits are used.
func TestSlowSpellsOfTheHostDoNotCount(t *testing.T) {
	b := newBench(t, 2, nil, `{"passes":2,"max_passes":4,"min_samples":3,"max_samples":3,"pass_tolerance":0.02}`)
	floor := 6 * time.Microsecond
	b.fake.Latency = func(o fakeOp) time.Duration {
		// In 20 ms of every 90 ms everything takes 1.5 times as long.
		if b.fake.NowLocked()%(90*time.Millisecond) < 20*time.Millisecond {
			return floor * 3 / 2
		}
		return floor
	}
	off, more := 0, 0
	for batch := range 3 {
		open := map[int]worker.Visitor{}
		for i := range window {
			v, err := b.host.visitor(worker.Case{Op: OpNCCL,
				Params: []byte(ncclCase(AllReduce, "int8", 2, 64+16*(batch*window+i)))})
			if err != nil {
				t.Fatal(err)
			}
			open[i] = v
		}
		for visits := 1; len(open) > 0; visits++ {
			for i := range window {
				v, ok := open[i]
				if !ok {
					continue
				}
				rows, _, done, err := v.Visit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !done {
					continue
				}
				delete(open, i)
				if rows[0]["latency"].(float64) > 1.02*floor.Seconds()*1e3 {
					off++
				}
				if visits < 2 {
					t.Errorf("a case was measured in %d visits", visits)
				}
				if visits > 2 {
					more++
				}
			}
		}
	}
	if off > 0 || more == 0 {
		t.Errorf("%d of %d cases are more than 2 %% above the floor; %d were visited again", off, 3*window, more)
	}
}

// A case that fails in a later visit ends alone. The other open cases continue.
func TestHeldCasesSurviveAFailure(t *testing.T) {
	b := newBench(t, 2, map[string]any{"rank_deadline": deadline},
		`{"passes":3,"max_passes":3,"min_samples":1,"max_samples":1}`)
	seen := 0
	b.fake.Stall = func(o fakeOp) bool {
		if o.Name == "broadcast" {
			seen++
		}
		return o.Name == "broadcast" && seen == 350
	}
	var cases []worker.Case
	for i, op := range []string{AllReduce, Broadcast, AllGather, ReduceScatter, AllToAll} {
		cases = append(cases, worker.Case{Seq: int64(i), Op: OpNCCL, Params: []byte(ncclCase(op, "half", 2, 256))})
	}
	res, err := serve(t.Context(), b.host, cases, 5)
	if err != nil {
		t.Fatal(err)
	}
	if f := res.errs[1]; len(res.errs) != 1 || f.Class != worker.ClassTimeout || res.starts[1] != 3 {
		t.Errorf("failures %+v after %d visits", res.errs, res.starts[1])
	}
	for _, seq := range []int64{0, 2, 3, 4} {
		if res.rows[seq]["passes"] != 3 {
			t.Errorf("case %d: %v", seq, res.rows[seq])
		}
	}
	if b.fake.Happened("init") != 4 || b.ranks.started() != 2 {
		t.Errorf("%d joins and %d starts of ranks", b.fake.Happened("init"), b.ranks.started())
	}
}

func TestUnsupportedCases(t *testing.T) {
	b := newBench(t, 2, nil, "")
	b.fails(worker.ClassUnsupportedConfig, "8 GPUs are needed and this node has 2", OpNCCL,
		ncclCase(AllReduce, "half", 8, 1024))
	b.fails(worker.ClassUnsupportedConfig, "less than 16 bytes", OpNCCL, ncclCase(AllGather, "half", 2, 8))
	b.fails(worker.ClassUnsupportedConfig, `"gather"`, OpNCCL, ncclCase("gather", "half", 2, 1024))
	b.fails(worker.ClassUnsupportedConfig, `"float64"`, OpNCCL, ncclCase(AllReduce, "float64", 2, 1024))
	b.fails(worker.ClassUnsupportedConfig, `no op "gemm"`, "gemm", `{}`)
	b.fails(worker.ClassCollectorBug, `"num_gpus" is missing`, OpNCCL, `{"op_name":"all_reduce","nccl_dtype":"half"}`)
	b.fails(worker.ClassCollectorBug, `"message_size" is 1.5`, OpNCCL,
		`{"op_name":"all_reduce","nccl_dtype":"half","num_gpus":2,"message_size":1.5}`)
	b.fake.FreeBytes = 1 << 20
	b.fails(worker.ClassResourceIssue, "CUDA_ERROR (2)", OpNCCL, ncclCase(AllReduce, "int8", 2, 1<<21))
	b.must(OpNCCL, ncclCase(AllReduce, "int8", 2, 1<<10))
}

func TestOptionsAreChecked(t *testing.T) {
	for text, options := range map[string]map[string]any{
		`no option "methods"`: {"methods": "eager"},
		`one of eager, graph`: {"method": "fast"},
		`rank_deadline is -1`: {"rank_deadline": -1.0},
	} {
		_, err := readOptions(worker.Init{Options: options})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want %q", options, err, text)
		}
	}
	if _, err := readSettings(worker.Init{Measure: []byte(`{"power":true}`)}); err == nil ||
		!strings.Contains(err.Error(), "power") {
		t.Errorf("power: %v", err)
	}
	if _, err := readSettings(worker.Init{Measure: []byte(`{"pases":1}`)}); err == nil ||
		!strings.Contains(err.Error(), "pases") {
		t.Errorf("a misspelt setting: %v", err)
	}
}
