//go:build linux

package comm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/nccl"
	"aicplan/cudaops/nccl/nccltest"
	"aicplan/cudaops/worker"
)

func customCase(gpus, size int, algorithm, method string) string {
	return fmt.Sprintf(`{"allreduce_dtype":"bfloat16","num_gpus":%d,"message_size":%d,"algorithm":%q,"method":%q}`, gpus, size, algorithm, method)
}

func TestCustomAllReduce(t *testing.T) {
	b := newBench(t, 4, nil, quick)
	b.fake.Latency = func(o nccltest.Op) time.Duration { return time.Duration(2+o.Ranks) * time.Microsecond }
	for _, gpus := range []int{2, 4} {
		for _, via := range []string{AlgorithmOneShot, AlgorithmTwoShot} {
			for _, method := range []string{MethodEager, MethodGraph} {
				row := b.must(OpCustomAllReduce, customCase(gpus, 1024, via, method))
				if want := float64(2+gpus) / 1e3; !near(row["latency"].(float64), want) {
					t.Errorf("%d GPUs %s %s: %v ms, want %v", gpus, via, method, row["latency"], want)
				}
				if row["kernel_source"] != "aicplan_"+via+"_"+method || row["implementation"] != "aicplan_"+via || row["op_name"] != AllReduce {
					t.Errorf("row: %v", row)
				}
				if row["used_cuda_graph"] != (method == MethodGraph) {
					t.Errorf("%s: graph %v", method, row["used_cuda_graph"])
				}
			}
		}
	}
	if b.ranks.spawned() != 0 || b.fake.Happened("init") != 0 {
		t.Error("a kernel of ours used processes or NCCL")
	}
	b.fake.Corrupt = nil
	b.fails(worker.ClassUnsupportedConfig, "built for 2, 4 and 8", OpCustomAllReduce, customCase(3, 1024, "auto", "graph"))
	b.fails(worker.ClassUnsupportedConfig, "not whole words", OpCustomAllReduce, customCase(2, 1001, "one_shot", "graph"))
	b.fails(worker.ClassUnsupportedConfig, "do not split", OpCustomAllReduce, customCase(4, 8, "two_shot", "graph"))
	b.fails(worker.ClassUnsupportedConfig, "it takes at most", OpCustomAllReduce, customCase(2, 64<<20, "one_shot", "graph"))
}

func TestAutoTakesTwoShotsForLargeMessages(t *testing.T) {
	for _, c := range []struct {
		ranks    int
		elements int64
		want     string
	}{{2, 128, viaOneShot}, {2, 1 << 20, viaOneShot}, {2, 1 << 21, viaTwoShot}, {4, 1 << 18, viaTwoShot}, {8, 1 << 16, viaOneShot}, {4, 1<<20 + 8, viaOneShot}} {
		if got := autoVia(nccl.BFloat16, c.ranks, c.elements); got != c.want {
			t.Errorf("%d ranks, %d elements: %v, want %s", c.ranks, c.elements, got, c.want)
		}
	}
	b := newBench(t, 2, nil, quick)
	if row := b.must(OpCustomAllReduce, customCase(2, 128, "auto", "graph")); row["algorithm"] != viaOneShot {
		t.Errorf("row: %v", row)
	}
}

// The kernels of all ranks must get the same peers, and a launch must not exceed the number of flags.
func TestPeerGrid(t *testing.T) {
	for _, c := range []struct {
		via   string
		ranks int
		bytes int64
		want  int
	}{{viaOneShot, 2, 256, 1}, {viaOneShot, 4, 8 << 10, 1}, {viaOneShot, 2, 64 << 10, 8}, {viaTwoShot, 4, 64 << 10, 2}, {viaTwoShot, 2, 1 << 30, 128}} {
		if got := peerGrid(c.via, c.ranks, c.bytes); got != c.want {
			t.Errorf("%s %d ranks %d bytes: %d blocks, want %d", c.via, c.ranks, c.bytes, got, c.want)
		}
	}
	for _, text := range []string{"#define MAX_RANKS 8", "#define MAX_BLOCKS 256", "__launch_bounds__(512)"} {
		if !strings.Contains(allreduceSource, text) {
			t.Errorf("allreduce.cu no longer says %q, which this package assumes", text)
		}
	}
}

func TestCopiesBetweenPeers(t *testing.T) {
	b := newBench(t, 4, nil, quick)
	b.fake.Latency = func(o nccltest.Op) time.Duration { return time.Duration(1000+o.Bytes) * time.Nanosecond }
	row := b.must(OpP2P, `{"src":3,"dst":1,"bytes":4096}`)
	if !near(row["latency"].(float64), 5096e-6) || !near(row["gb_per_s"].(float64), 4096/5096.0) {
		t.Errorf("row: %v", row)
	}
	if row["nvlinks"] != 18 || row["access"] != true || row["native_atomics"] != true {
		t.Errorf("path: %v", row)
	}
	both := b.must(OpP2P, `{"src":0,"dst":2,"bytes":1048576,"direction":"both_ways"}`)
	if !near(both["latency"].(float64), 1049576e-6) {
		t.Errorf("both ways: %v", both)
	}
	b.fails(worker.ClassUnsupportedConfig, "both 1", OpP2P, `{"src":1,"dst":1,"bytes":4096}`)
	b.fails(worker.ClassUnsupportedConfig, "this node has 4", OpP2P, `{"src":1,"dst":4,"bytes":4096}`)
	b.fake.Corrupt = func(o nccltest.Op, _ int) bool { return o.Name == "copy" }
	b.fails(worker.ClassFrameworkBug, "wrong result", OpP2P, `{"src":0,"dst":1,"bytes":512}`)
}
