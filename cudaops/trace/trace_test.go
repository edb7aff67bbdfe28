package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNanoseconds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"0": 0, "1": 1000, "1.5": 1500, "41.407": 41407, "1712867402348700.123": 1712867402348700123,
		"4458676983543.183": 4458676983543183, "-2.5": -2500, "1.0004": 1000, "1.0005": 1001, "1.00049": 1000,
		"1.5e3": 1500000, "2E-3": 2,
	} {
		if got, err := nanoseconds([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-", ".", "1.", "x", "1x", "NaN", "1e400", "99999999999999999999",
		"1e99999999999", "1e300", "-4e18", "1 2", "0x10", "1/3"} {
		if got, err := nanoseconds([]byte(in)); err == nil {
			t.Errorf("%q is %d", in, got)
		}
	}
}

// TestNanosecondsAgainstRational compares the fast conversion with exact arithmetic.
func TestNanosecondsAgainstRational(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := fmt.Sprintf("%d.%0*d", rng.Int64N(1<<50), 1+rng.IntN(6), rng.IntN(10))
		r, _ := new(big.Rat).SetString(s)
		r.Mul(r, big.NewRat(1000, 1)).Add(r, big.NewRat(1, 2))
		want := new(big.Int).Div(r.Num(), r.Denom()).Int64()
		if got, err := nanoseconds([]byte(s)); err != nil || got != want {
			t.Fatalf("%s: %d, %v; want %d", s, got, err, want)
		}
	}
}

func read(t testing.TB, text string) []*Analysis {
	t.Helper()
	res, err := ReadFrom(strings.NewReader(text), "t.json", Options{Top: 10})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// event returns a kernel event as written by a profiler.
func event(name string, ts, dur float64, device int) string {
	b, _ := json.Marshal(name)
	return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%s,"pid":%d,"tid":7,"ts":%.3f,"dur":%.3f,"args":{"device":%d,"stream":7}}`, b, device, ts, dur, device)
}

func TestForms(t *testing.T) {
	t.Parallel()
	k := event("gemm", 10, 5, 0) + "," + event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 12, 6, 0)
	for name, text := range map[string]string{
		"array":        "[" + k + "]",
		"events last":  `{"schemaVersion":1,"x":{"y":[1,"]"]},"traceEvents":[` + k + `]}`,
		"events first": `{"traceEvents":[` + k + `],"distributedInfo":{"rank":3,"world_size":4}}`,
		"pretty":       "{\n \"traceEvents\" : [\n " + strings.ReplaceAll(k, ",", " ,\n  ") + "\n]\n}",
		"key order":    `[{"dur":5,"ts":10,"args":{"device":0},"name":"gemm","ph":"X","cat":"kernel"},{"args":{"device":"0"},"ts":"12","dur":"6.000","name":"ncclDevKernel_AllReduce_x","cat":"Kernel","ph":"X"}]`,
		"begin and end": `[{"ph":"B","cat":"kernel","name":"gemm","pid":0,"tid":1,"ts":10},{"ph":"E","pid":0,"tid":1,"ts":15},
			{"ph":"B","cat":"kernel","name":"ncclDevKernel_AllReduce_x","pid":0,"tid":2,"ts":12},{"ph":"E","pid":0,"tid":2,"ts":18}]`,
	} {
		r := read(t, text)[0]
		if r.Kernels != 2 || *r.SpanNs != 8000 || *r.CommSumNs != 6000 || *r.OverlapNs != 3000 || *r.ExposedCommNs != 3000 ||
			*r.BusyNs != 8000 {
			t.Errorf("%s: %s", name, dump(r))
		}
	}
	if r := read(t, `{"traceEvents":[`+k+`],"distributedInfo":{"rank":3,"world_size":4}}`)[0]; *r.Rank != 3 ||
		*r.WorldSize != 4 {
		t.Errorf("rank: %s", dump(r))
	}
}

func dump(v any) string { b, _ := json.Marshal(v); return string(b) }

func TestReadRejectsOtherFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "empty",
		"hello":                    "neither a Kineto",
		`{"a":1}`:                  "no traceEvents",
		`{"nodes":[]}`:             "no traceEvents: it is not a profiler trace",
		`{"a":`:                    "no traceEvents",
		`{"traceEvents":3}`:        "no array",
		`{"traceEvents":[3]}`:      "event 0: it is no object",
		`{"traceEvents":[{"a":1]}`: "byte 16: event 0",
		`{a:1}`:                    "does not start with a quote",
		strings.Repeat("[", 3000):  "event 0",
		"Start (ns),Name\n1,2\n":   "neither a Kineto",
		`{"traceEvents":[` + strings.Repeat(`{"a":[`, 300) + strings.Repeat(`]}`, 300) + `]}`: "event 0",
	} {
		_, err := ReadFrom(strings.NewReader(text), "t.json", Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// TestTruncatedTraceKeepsWholeEvents truncates a trace at every byte. Complete events are evaluated and the
// truncation is reported.
func TestTruncatedTraceKeepsWholeEvents(t *testing.T) {
	t.Parallel()
	text := `{"schemaVersion": 1, "traceEvents": [` + event("a \\\" ] }", 1, 1, 0) + ", " + event("b", 3, 1.25,
		0) + `], "x": [1, {"y": "z"}], "n": 12}`
	first := strings.Index(text, "}}") + 2
	for i := range text {
		res, err := ReadFrom(strings.NewReader(text[:i]), "t.json", Options{})
		if err != nil {
			if i > strings.Index(text, "[") {
				t.Errorf("cut at %d: %v", i, err)
			}
			continue
		}
		if res[0].Warning == "" {
			t.Errorf("cut at %d gives no warning", i)
		}
		if i > first && res[0].Kernels == 0 {
			t.Errorf("cut at %d lost the first kernel", i)
		}
	}
}

// slow evaluates intervals by marking every nanosecond.
func slow(ks []kernel, names []kernelName) (comm, compute, busy, both int64) {
	var end int64
	for _, k := range ks {
		end = max(end, k.end)
	}
	m := make([]byte, end)
	for _, k := range ks {
		bit := byte(1)
		if names[k.name].kind != "" {
			bit = 2
		}
		for i := k.start; i < k.end; i++ {
			m[i] |= bit
		}
	}
	for _, b := range m {
		comm += int64(b >> 1)
		compute += int64(b & 1)
		busy += int64(b&1 | b>>1)
		both += int64(b & 1 & (b >> 1))
	}
	return comm, compute, busy, both
}

func TestUnionsAgainstMarking(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		rec := newRecording(DefaultRules())
		d := rec.device(origin{device: "0"})
		for range 1 + rng.IntN(30) {
			name := []string{"gemm", "softmax", "ncclKernel_AllGather_RING",
				"void vllm::cross_device_reduce_2stage<x>"}[rng.IntN(4)]
			start := rng.Int64N(2000)
			rec.add(d, []byte(name), interval{start, start + rng.Int64N(300)}, launch{}, collective{})
		}
		comm, compute, busy, both := slow(slices.Clone(d.kernels), rec.names)
		r := rec.results("f", "kineto", 0)[0]
		if *r.CommUnionNs != comm || *r.ComputeUnionNs != compute || *r.BusyNs != busy || *r.OverlapNs != both ||
			*r.ExposedCommNs != comm-both {
			t.Fatalf("%s; want %d %d %d %d", dump(r), comm, compute, busy, both)
		}
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	ann := func(cat, name string, ts, dur float64) string {
		return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":0,"tid":7,"ts":%g,"dur":%g}`, cat, name, ts, dur)
	}
	kernels := []string{event("gemm", 10, 4, 0), event("ncclDevKernel_AllReduce_x", 12, 4, 0), event("gemm", 18, 4, 0)}
	// The CPU's ranges end before the device does, so the device's ranges must be used.
	r := read(t, "["+strings.Join(append(slices.Clone(kernels), ann("user_annotation", "execute_context_1", 5, 6),
		ann("user_annotation", "execute_context_2", 12, 3),
		ann("gpu_user_annotation", "execute_context_1", 10, 6), ann("gpu_user_annotation", "execute_context_1", 10,
			5), ann("gpu_user_annotation", "execute_context_2", 18, 4)), ",")+"]")[0]
	if r.Steps != 2 || r.PerStep[0].WallNs != 6000 || *r.PerStep[0].ExposedCommNs != 2000 || r.PerStep[0].Kernels != 2 ||
		r.PerStep[0].Collectives != 1 || r.PerStep[1].BubbleNs != 0 {
		t.Error(dump(r))
	}
	// ProfilerStep has precedence over a server's ranges, and a kernel that crosses the end is clipped.
	r = read(t, "["+strings.Join(append(kernels, ann("user_annotation", "ProfilerStep#1", 5, 10),
		ann("user_annotation", "ProfilerStep#2", 15, 5), ann("user_annotation", "execute_context_2", 12, 3)), ",")+"]")[0]
	if r.Steps != 2 || r.PerStep[0].BusyNs != 5000 || r.PerStep[1].BusyNs != 3000 || *r.PerStep[1].CommSumNs != 1000 ||
		r.PerStep[1].Kernels != 1 {
		t.Error(dump(r))
	}
}

func TestDevicesAreEvaluatedSeparately(t *testing.T) {
	t.Parallel()
	res := read(t, "["+event("a", 0, 10, 0)+","+event("a", 0, 10, 1)+","+event("a", 5, 10, 1)+"]")
	if len(res) != 2 || *res[0].BusyNs != 10000 || *res[1].BusyNs != 15000 || res[1].Device != "1" {
		t.Error(dump(res))
	}
}

func TestBusbw(t *testing.T) {
	t.Parallel()
	k := `{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_x","pid":0,"tid":1,"ts":1,"dur":10,"args":{"device":0,"Collective name":"allreduce","In msg nelems":500000,"Out msg nelems":500000,"Group size":4,"dtype":"BFloat16","Process Group Name":"tp"}}`
	c := read(t, "["+k+"]")[0].Collectives[0]
	if *c.Bytes != 1000000 || *c.BusbwP50 != 150 { // 1e6 B / 10 us = 100 GB/s, times 2*3/4
		t.Error(dump(c))
	}
}

func TestAlign(t *testing.T) {
	t.Parallel()
	rank := func(n int, durs ...float64) *Analysis {
		var ev []string
		for i, d := range durs {
			ev = append(ev, event("ncclDevKernel_AllReduce_x", float64(100*i), d, 0))
		}
		res, err := ReadFrom(strings.NewReader("["+strings.Join(ev, ",")+"]"), fmt.Sprintf("kineto_trace_%d.json", n),
			Options{})
		if err != nil {
			t.Fatal(err)
		}
		return res[0]
	}
	a, b := rank(0, 10, 30, 10), rank(1, 50, 10, 10)
	if note := Align([]*Analysis{a, b}); note != "" || *a.WaitNs != 20000 || *b.WaitNs != 40000 || *b.Rank != 1 {
		t.Errorf("%q %s %s", note, dump(a), dump(b))
	}
	a, b = rank(0, 10), rank(1, 10, 10)
	if note := Align([]*Analysis{a, b}); !strings.Contains(note, "one run") || a.WaitNs != nil {
		t.Errorf("%q", note)
	}
	// Two traces of one rank are not two ranks.
	a, b = rank(3, 10), rank(3, 30)
	if note := Align([]*Analysis{a, b}); !strings.Contains(note, "both of rank 3") || a.WaitNs != nil {
		t.Errorf("%q %s", note, dump(a))
	}
}

func TestRankOfName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"rank-34.Jul_15.pt.trace.json.gz": 34,
		"dp0_pp0_tp1_dcp0_ep1_rank1.1767.pt.trace.json.gz": 1, "kineto_trace_7.json": 7, "trace.json": -1,
		"1763812345.12-TP-3.trace.json.gz": 3, "1763812345.12-TP-1-EP-1-DECODE.trace.json.gz": 1,
		"1763812345.12-TP-1-DP-1.trace.json.gz": -1, "1763812345.12-TP-0-PP-2.trace.json.gz": -1} {
		got := -1
		if p := RankOfName(name); p != nil {
			got = *p
		}
		if got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// FuzzRead checks for panics and inconsistent figures.
func FuzzRead(f *testing.F) {
	f.Add([]byte("[" + event("ncclKernel_AllReduce", 1, 2, 0) + "," + event("g", 2.5, 1e3, 0) + "]"))
	f.Add([]byte(`{"traceEvents":[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":1,"dur":5},` + event("g",
		2, 1, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := ReadFrom(bytes.NewReader(b), "t", Options{Top: 3})
		if err != nil {
			return
		}
		for _, r := range res {
			if (r.Kernels == 0) != (r.Error != "") || (r.SpanNs == nil) != (r.Error != "") {
				t.Fatalf("%+v", r)
			}
			if r.SpanNs != nil && (*r.BusyNs > *r.SpanNs || *r.CommUnionNs > *r.CommSumNs ||
				*r.ExposedCommNs+*r.ComputeUnionNs != *r.BusyNs) {
				t.Fatalf("%+v", r)
			}
		}
		if _, err := json.Marshal(res); err != nil {
			t.Fatal(err)
		}
	})
}
