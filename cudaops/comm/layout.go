package comm

import (
	"fmt"
	"slices"

	"aicplan/cudaops/cuda"
)

// Collectives. The names are those of column op_name of the perf table, plus broadcast and send_recv.
const (
	AllReduce     = "all_reduce"
	AllGather     = "all_gather"
	ReduceScatter = "reduce_scatter"
	AllToAll      = "alltoall"
	Broadcast     = "broadcast"
	SendRecv      = "send_recv" // each rank sends to the next one
)

// Collectives lists the collectives of the op "nccl".
var Collectives = []string{AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv}

// dataTypes maps the values of nccl_dtype to NCCL's types.
var dataTypes = map[string]cuda.NCCLType{
	"half": cuda.Half, "float16": cuda.Half, "bfloat16": cuda.BFloat16, "int8": cuda.Int8,
}

// expectation is the expected content of a receive buffer, see pattern.cu.
type expectation int32

const (
	expectSum      expectation = 0
	expectGather   expectation = 1
	expectExchange expectation = 2
	expectCopy     expectation = 3
)

// layout describes how a message of a collective is distributed over the ranks. Counts are elements of one
// rank.
type layout struct {
	op    string
	ranks int
	size  int64 // bytes per element

	count      int64 // argument of the NCCL call
	send, recv int64

	// bytes is the message size as printed by nccl-tests: the size of the larger buffer after rounding.
	bytes int64

	// bus is the ratio of bus bandwidth to algorithm bandwidth.
	bus float64
}

// newLayout returns the layout of a message. Like nccl-tests, it rounds each rank's part down to a multiple
// of 16 bytes if the collective splits the message. It returns an error if the combination is not possible.
func newLayout(op string, t cuda.NCCLType, ranks int, elements int64) (layout, error) {
	l := layout{op: op, ranks: ranks, size: t.Size(), bus: 1}
	if !slices.Contains(Collectives, op) {
		return l, fmt.Errorf("there is no collective %q; there are %v", op, Collectives)
	}

	if ranks < 1 || elements < 1 {
		return l, fmt.Errorf("%s over %d GPUs with %d elements: both must be at least 1", op, ranks, elements)
	}

	n := int64(ranks)
	part := elements / n &^ (16/l.size - 1)
	if part == 0 && op != AllReduce && op != Broadcast && op != SendRecv {
		return l, fmt.Errorf("%d elements of %d bytes leave less than 16 bytes to each of %d GPUs", elements,
			l.size, ranks)
	}

	share := float64(n-1) / float64(n)
	switch op {
	case AllReduce:
		l.count, l.send, l.recv, l.bus = elements, elements, elements, 2*share
	case Broadcast, SendRecv:
		l.count, l.send, l.recv = elements, elements, elements
	case AllGather:
		l.count, l.send, l.recv, l.bus = part, part, part*n, share
	case ReduceScatter:
		l.count, l.send, l.recv, l.bus = part, part*n, part, share
	case AllToAll:
		l.count, l.send, l.recv, l.bus = part, part*n, part*n, share
	}

	l.bytes = max(l.send, l.recv) * l.size
	return l, nil
}

// check returns the expected content of a rank's receive buffer.
func (l layout) check(rank int) (e expectation, src int, base, part int64) {
	switch l.op {
	case AllReduce:
		return expectSum, 0, 0, l.count
	case ReduceScatter:
		return expectSum, 0, int64(rank) * l.count, l.count
	case AllGather:
		return expectGather, 0, 0, l.count
	case AllToAll:
		return expectExchange, 0, int64(rank) * l.count, l.count
	case SendRecv:
		return expectCopy, (rank + l.ranks - 1) % l.ranks, 0, l.count
	default: // Broadcast
		return expectCopy, 0, 0, l.count
	}
}

// gigabytesPerSecond returns algorithm and bus bandwidth for the time of one execution in seconds.
func (l layout) gigabytesPerSecond(seconds float64) (alg, bus float64) {
	alg = float64(l.bytes) / seconds / 1e9
	return alg, alg * l.bus
}
