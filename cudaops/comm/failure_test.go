//go:build linux

package comm

import (
	"testing"

	"aicplan/cudaops/worker"
)

// deadline of ranks that hang, in seconds of the fake clock, which does not wait. A group gives up
// unresponsive ranks by the real clock, a little later. A busy machine may take that long for any task.
const deadline = 60.0

const quick = `{"passes":1,"max_passes":1,"min_samples":1,"max_samples":1}`

// otherCases are measured after a failure and must not be affected by it.
func (b *bench) goesOn(op string, gpus ...int) {
	b.t.Helper()
	for _, n := range gpus {
		b.must(op, ncclCase(AllReduce, "half", n, 256))
		b.must(op, ncclCase(ReduceScatter, "int8", n, 256))
	}
}

func TestWrongResultOfTheLibraryFailsItsCaseOnly(t *testing.T) {
	for _, method := range []string{MethodEager, MethodGraph} {
		for _, op := range Collectives {
			b := newBench(t, 4, map[string]any{"method": method}, quick)
			b.goesOn(OpNCCL, 4)
			b.fake.Corrupt = func(o fakeOp, rank int) bool { return o.Name == op && o.Bytes > 64 && rank == 2 }
			if op == SendRecv {
				b.fake.Corrupt = nil // its bytes do not pass through a reduction of the fake
				continue
			}
			f := b.fails(worker.ClassFrameworkBug, "wrong result on rank 2: 1 of", OpNCCL, ncclCase(op, "half", 4, 128))
			if f.Fatal || f.Exception != "WrongResult" {
				t.Errorf("%s: %+v", op, f)
			}
			b.fake.Corrupt = nil
			inits := b.fake.Happened("init")
			b.goesOn(OpNCCL, 4)
			if b.fake.Happened("init") != inits {
				t.Errorf("%s: a wrong result cost the communicator", op)
			}
		}
	}
}

// The second verification detects a result that becomes wrong after the first executions.
func TestLateWrongResult(t *testing.T) {
	b := newBench(t, 2, nil, quick)
	b.fake.Corrupt = func(o fakeOp, rank int) bool { return o.No > 20 && rank == 0 }
	b.fails(worker.ClassFrameworkBug, "wrong result on rank 0", OpNCCL, ncclCase(AllReduce, "int8", 2, 512))
}

// The ranks of a kernel that never ends are ended, and started again for the next case.
func TestKernelThatNeverEnds(t *testing.T) {
	for _, method := range []string{MethodEager, MethodGraph} {
		b := newBench(t, 2, map[string]any{"method": method, "rank_deadline": deadline}, quick)
		b.goesOn(OpNCCL, 2)
		seen := 0
		b.fake.Stall = func(o fakeOp) bool {
			if o.Name == "reduce_scatter" {
				seen++
			}
			return seen == 20 && o.Name == "reduce_scatter"
		}
		began := b.fake.Now()
		f := b.fails(worker.ClassTimeout, "did not finish within 1m0s", OpNCCL, ncclCase(ReduceScatter, "half", 2, 1024))
		if f.Fatal {
			t.Errorf("%s: %+v", method, f)
		}
		if took := (b.fake.Now() - began).Seconds(); took > deadline+5 {
			t.Errorf("%s: a deadline of %v s took %v s", method, deadline, took)
		}
		b.goesOn(OpNCCL, 2)
		if n := b.ranks.started(); n != 2 {
			t.Errorf("%s: the ranks were started %d times, want 2", method, n)
		}
	}
}

// If a rank's process is killed between two cases, the next task fails and the rank is replaced afterwards.
func TestKilledProcess(t *testing.T) {
	b := newBench(t, 2, map[string]any{"method": "graph"}, quick)
	b.goesOn(OpNCCL, 2)
	b.ranks.kill(1)
	b.fails(worker.ClassFrameworkBug, "rank 1: the connection to it on node0 was closed: SIGKILL", OpNCCL,
		ncclCase(AllReduce, "half", 2, 1024))
	b.goesOn(OpNCCL, 2)
	if n := b.ranks.started(); n != 2 {
		t.Errorf("the ranks were started %d times, want 2", n)
	}
}
