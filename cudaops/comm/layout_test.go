package comm

import (
	"math"
	"testing"

	"aicplan/cudaops/cuda"
)

// Sizes printed by nccl-tests for -b S, and its bus bandwidth factors.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		op                string
		typ               cuda.NCCLType
		ranks             int
		elements          int64
		count, send, recv int64
		bytes             int64
		bus               float64
	}{
		{AllReduce, cuda.Half, 4, 256, 256, 256, 256, 512, 1.5},
		{AllReduce, cuda.Half, 2, 257, 257, 257, 257, 514, 1},
		{AllGather, cuda.Half, 4, 256, 64, 64, 256, 512, 0.75},
		{AllGather, cuda.Int8, 8, 512, 64, 64, 512, 512, 0.875},
		{AllGather, cuda.Int8, 8, 1000, 112, 112, 896, 896, 0.875}, // 125 rounded down to 16 bytes
		{ReduceScatter, cuda.Half, 4, 4100, 1024, 4096, 1024, 8192, 0.75},
		{AllToAll, cuda.BFloat16, 2, 1 << 20, 1 << 19, 1 << 20, 1 << 20, 2 << 20, 0.5},
		{SendRecv, cuda.Int8, 4, 100, 100, 100, 100, 100, 1},
		{Broadcast, cuda.Half, 4, 100, 100, 100, 100, 200, 1},
	} {
		l, err := newLayout(c.op, c.typ, c.ranks, c.elements)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if l.count != c.count || l.send != c.send || l.recv != c.recv || l.bytes != c.bytes || l.bus != c.bus {
			t.Errorf("%s %d ranks, %d elements: %+v, want %+v", c.op, c.ranks, c.elements, l, c)
		}
	}
	l, _ := newLayout(AllReduce, cuda.Half, 4, 256<<20)
	// The published 2.31 ms of 256 Mi half elements on 4 GPUs.
	alg, bus := l.gigabytesPerSecond(2.31117e-3)
	if !(math.Abs(alg-232.29) <= 0.01) || !(math.Abs(bus-348.44) <= 0.01) {
		t.Errorf("bandwidths %v and %v GB/s", alg, bus)
	}
}
