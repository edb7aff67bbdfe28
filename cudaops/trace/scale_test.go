package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowStep evaluates a step by checking every kernel.
func slowStep(ks []kernel, names []kernelName, s span) Step {
	var in []kernel
	out := Step{Name: s.name, StartNs: s.start, WallNs: s.end - s.start}
	var commSum int64
	for _, k := range ks {
		if k.start >= s.end || k.end <= s.start {
			continue
		}
		if k.start >= s.start {
			out.Kernels++
			if names[k.name].kind != "" {
				out.Collectives++
			}
		}
		k.start, k.end = max(k.start, s.start)-s.start, min(k.end, s.end)-s.start
		if names[k.name].kind != "" {
			commSum += k.end - k.start
		}
		in = append(in, k)
	}
	comm, compute, busy, both := slow(in, names)
	exposed := comm - both
	out.BusyNs, out.BubbleNs = busy, out.WallNs-busy
	out.Parts = Parts{CommSumNs: &commSum, CommUnionNs: &comm, ComputeUnionNs: &compute, OverlapNs: &both,
		ExposedCommNs: &exposed}
	return out
}

// Steps that touch, overlap, nest, are apart and are empty, with kernels that span several of them.
func TestStepsAgainstMarking(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		rec := newRecording(DefaultRules())
		d := rec.device(origin{device: "0"})
		for range 1 + rng.IntN(40) {
			start := rng.Int64N(1000)
			rec.add(d, []byte([]string{"gemm", "ncclDevKernel_AllReduce_x"}[rng.IntN(2)]),
				interval{start, start + rng.Int64N(1+rng.Int64N(600))}, launch{}, collective{})
		}
		for i := range rng.IntN(12) {
			start := rng.Int64N(1300) - 100
			rec.ranges = append(rec.ranges, span{interval: interval{start, start + rng.Int64N(1+rng.Int64N(700))},
				name: fmt.Sprint("ProfilerStep#", i)})
		}
		ks := slices.Clone(d.kernels)
		got := rec.results("f", "kineto", 0)[0].PerStep
		want := []Step{}
		for _, s := range rec.steps(d) {
			want = append(want, slowStep(ks, rec.names, s))
		}
		if dump(got) != dump(want) {
			t.Fatalf("%s\nwant\n%s", dump(got), dump(want))
		}
	}
}

// Sums of implausible times do not overflow.
func TestImplausibleTimesDoNotOverflow(t *testing.T) {
	t.Parallel()
	var ev []string
	for i := range 40 {
		ev = append(ev, event("ncclDevKernel_AllReduce_x", float64(i), 2.8e11, 0)) // three days
	}
	ev = append(ev, event("k", -9e15, 1, 0), event("k", 9e15, 1, 0), event("k", 1, 9e15, 0), event("k", 1, -1, 0))
	r := read(t, "["+strings.Join(ev, ",")+"]")[0]
	if r.Kernels != 40 || *r.CommSumNs != 40*280_000_000_000_000 || *r.SpanNs != 280_000_000_000_000+39_000 ||
		r.Warning != "left out: 4 kernels without a usable time" {
		t.Error(dump(r))
	}
	if !r.Incomplete || r.Truncated {
		t.Error("nothing is missed")
	}
	if plus(1<<62, 1<<62) != 1<<63-1 {
		t.Error("a sum ran over")
	}
}
