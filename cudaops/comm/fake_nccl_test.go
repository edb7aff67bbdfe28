//go:build linux

package comm

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"

	"aicplan/cudaops/cuda"
)

// fakeNCCL is the fake NCCL of a node.
type fakeNCCL struct{ *machine }

type fakeGroup struct {
	ranks  int
	joined int
}

type fakeComm struct {
	id    string
	rank  int
	ranks int
	calls int
}

// fakePending is an open group of sends and receives.
type fakePending struct {
	comm  *fakeComm
	s     cuda.Stream
	parts []fakePart
}

type fakePart struct {
	recv bool
	peer int
	at   cuda.Ptr
	size int64
}

// Version implements cuda.NCCL.
func (l fakeNCCL) Version() (int, error) { return 22809, nil }

// UniqueID implements cuda.NCCL.
func (l fakeNCCL) UniqueID() (id cuda.UniqueID, err error) {
	defer l.lock()()
	binary.LittleEndian.PutUint64(id[:], l.handle())
	return id, nil
}

// InitRank implements cuda.NCCL.
func (l fakeNCCL) InitRank(nranks int, id cuda.UniqueID, rank int) (cuda.Comm, error) {
	defer l.lock()()
	if _, err := l.device("ncclCommInitRank"); err != nil {
		return 0, &cuda.CallError{Call: "ncclCommInitRank", Code: 1}
	}

	key := string(id[:8])
	g := l.groups[key]
	if g == nil {
		g = &fakeGroup{ranks: nranks}
		l.groups[key] = g
	}

	if g.ranks != nranks || rank >= nranks {
		return 0, &cuda.CallError{Call: "ncclCommInitRank", Code: 4}
	}

	g.joined++
	l.moved.Broadcast()
	for g.joined < g.ranks {
		l.moved.Wait()
	}

	h := l.handle()
	l.comms[h] = &fakeComm{id: key, rank: rank, ranks: nranks}
	l.counts["init"]++

	return cuda.Comm(h), nil
}

// fakeComm returns a live communicator. The caller must have locked mu.
func (l fakeNCCL) comm(call string, c cuda.Comm) (*fakeComm, error) {
	found, ok := l.comms[uint64(c)]
	if !ok {
		l.problem("%s on a communicator that does not exist", call)
		return nil, &cuda.CallError{Call: call, Code: 5}
	}
	return found, nil
}

// AsyncError implements cuda.NCCL.
func (l fakeNCCL) AsyncError(c cuda.Comm) error {
	defer l.lock()()
	_, err := l.comm("ncclCommGetAsyncError", c)
	return err
}

// GroupStart implements cuda.NCCL.
func (l fakeNCCL) GroupStart() error {
	defer l.lock()()
	l.grouped[syscall.Gettid()] = &fakePending{}
	return nil
}

// GroupEnd implements cuda.NCCL.
func (l fakeNCCL) GroupEnd() error {
	defer l.lock()()
	g := l.grouped[syscall.Gettid()]
	delete(l.grouped, syscall.Gettid())
	if g == nil || g.comm == nil {
		return nil
	}

	var bytes int64
	for _, p := range g.parts {
		bytes = max(bytes, p.size)
	}

	return l.collective("send_recv", g.comm, g.s, bytes, []any{g.parts}, func(all []*fakeWork) {
		for _, w := range all {
			for _, p := range w.args[0].([]fakePart) {
				if !p.recv {
					continue
				}
				for _, q := range all[p.peer].args[0].([]fakePart) {
					if !q.recv && q.peer == w.rank {
						copy(l.bytes(p.at, p.size), l.bytes(q.at, q.size))
					}
				}
			}
		}
	})
}

// collective queues the work of one rank. The caller must have locked mu.
func (l fakeNCCL) collective(name string, c *fakeComm, s cuda.Stream, bytes int64, args []any,
	run func([]*fakeWork)) error {
	return l.push(s, func() *fakeWork {
		no := c.calls
		c.calls++
		return &fakeWork{
			key: fmt.Sprintf("%x#%d", c.id, no), rank: c.rank, ranks: c.ranks, args: args,
			op: fakeOp{Name: name, Ranks: c.ranks, Bytes: bytes},
			run: func(all []*fakeWork) {
				for _, w := range all {
					if w.op.Name != name {
						l.problem("rank %d calls %s while rank %d calls %s", c.rank, name, w.rank, w.op.Name)
					}
				}
				run(all)
			},
		}
	})
}

// spread queues a collective with one send and one receive buffer per rank.
func (l fakeNCCL) spread(name string, h cuda.Comm, s cuda.Stream, send, recv cuda.Ptr, sendBytes, recvBytes int64,
	run func(send, recv [][]byte)) error {
	defer l.lock()()
	c, err := l.comm(name, h)
	if err != nil {
		return err
	}

	return l.collective(name, c, s, max(sendBytes, recvBytes), []any{send, recv}, func(all []*fakeWork) {
		ins, outs := make([][]byte, len(all)), make([][]byte, len(all))
		for i, w := range all {
			// Copy the inputs, because results overlap them in place.
			ins[i] = append([]byte(nil), l.bytes(w.args[0].(cuda.Ptr), sendBytes)...)
			outs[i] = l.bytes(w.args[1].(cuda.Ptr), recvBytes)
		}
		run(ins, outs)
		for i, w := range all {
			if l.Corrupt != nil && l.Corrupt(w.op, i) {
				outs[i][len(outs[i])-1] ^= 0x40
			}
		}
	})
}

// AllReduce implements cuda.NCCL.
func (l fakeNCCL) AllReduce(send, recv cuda.Ptr, count int64, t cuda.NCCLType, c cuda.Comm,
	s cuda.Stream) error {
	n := count * t.Size()
	return l.spread("all_reduce", c, s, send, recv, n, n, func(in, out [][]byte) {
		fakeSum(out[0], in, 0, t)
		for r := range out {
			copy(out[r], out[0])
		}
	})
}

// AllGather implements cuda.NCCL.
func (l fakeNCCL) AllGather(send, recv cuda.Ptr, count int64, t cuda.NCCLType, c cuda.Comm, s cuda.Stream) error {
	n := count * t.Size()
	return l.spread("all_gather", c, s, send, recv, n, n*l.size(c), func(in, out [][]byte) {
		for r := range out {
			for i := range in {
				copy(out[r][int64(i)*n:], in[i])
			}
		}
	})
}

// ReduceScatter implements cuda.NCCL.
func (l fakeNCCL) ReduceScatter(send, recv cuda.Ptr, count int64, t cuda.NCCLType, c cuda.Comm,
	s cuda.Stream) error {
	n := count * t.Size()
	return l.spread("reduce_scatter", c, s, send, recv, n*l.size(c), n, func(in, out [][]byte) {
		for r := range out {
			fakeSum(out[r], in, int64(r)*n, t)
		}
	})
}

// AllToAll implements cuda.NCCL.
func (l fakeNCCL) AllToAll(send, recv cuda.Ptr, count int64, t cuda.NCCLType, c cuda.Comm, s cuda.Stream) error {
	n := count * t.Size()
	return l.spread("alltoall", c, s, send, recv, n*l.size(c), n*l.size(c), func(in, out [][]byte) {
		for r := range out {
			for i := range in {
				copy(out[r][int64(i)*n:], in[i][int64(r)*n:int64(r+1)*n])
			}
		}
	})
}

// Broadcast implements cuda.NCCL.
func (l fakeNCCL) Broadcast(send, recv cuda.Ptr, count int64, t cuda.NCCLType, c cuda.Comm,
	s cuda.Stream) error {
	n := count * t.Size()
	return l.spread("broadcast", c, s, send, recv, n, n, func(in, out [][]byte) {
		for r := range out {
			copy(out[r], in[0])
		}
	})
}

// Send implements cuda.NCCL. It must be called inside a group.
func (l fakeNCCL) Send(at cuda.Ptr, count int64, t cuda.NCCLType, peer int, c cuda.Comm, s cuda.Stream) error {
	return l.part("ncclSend", fakePart{peer: peer, at: at, size: count * t.Size()}, c, s)
}

// Recv implements cuda.NCCL. It must be called inside a group.
func (l fakeNCCL) Recv(at cuda.Ptr, count int64, t cuda.NCCLType, peer int, c cuda.Comm, s cuda.Stream) error {
	return l.part("ncclRecv", fakePart{recv: true, peer: peer, at: at, size: count * t.Size()}, c, s)
}

func (l fakeNCCL) part(call string, p fakePart, h cuda.Comm, s cuda.Stream) error {
	defer l.lock()()
	c, err := l.comm(call, h)
	if err != nil {
		return err
	}

	g := l.grouped[syscall.Gettid()]
	if g == nil {
		return &cuda.CallError{Call: call, Code: 5}
	}

	g.comm, g.s, g.parts = c, s, append(g.parts, p)
	return nil
}

func (l fakeNCCL) size(h cuda.Comm) int64 {
	defer l.lock()()
	if c, ok := l.comms[uint64(h)]; ok {
		return int64(c.ranks)
	}
	return 1
}

// fakeSum adds the ranks' elements starting at byte offset at and stores the sums in out, rounded to the type.
func fakeSum(out []byte, in [][]byte, at int64, t cuda.NCCLType) {
	size := t.Size()
	for i := int64(0); i < int64(len(out)); i += size {
		var sum float64
		for _, b := range in {
			sum += t.Matrix().Value(b[at+i:])
		}
		fakePut(out[i:], sum, t)
	}
}

// fakePut encodes one element. Values outside the range needed by the test patterns saturate.
func fakePut(b []byte, v float64, t cuda.NCCLType) {
	switch t {
	case cuda.Int8:
		b[0] = byte(int8(int64(v)))
	case cuda.Int32:
		binary.LittleEndian.PutUint32(b, uint32(int32(v)))
	case cuda.BFloat16:
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(v))>>16))
	case cuda.Half:
		binary.LittleEndian.PutUint16(b, halfBits(v))
	default:
		panic(fmt.Sprintf("cudatest: no arithmetic for type %d", t))
	}
}

func halfBits(v float64) uint16 {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 1<<15, -v
	}

	switch {
	case v == 0:
		return sign
	case v >= 65520 || math.IsNaN(v):
		return sign | 31<<10
	}

	frac, exp := math.Frexp(v) // v = frac * 2^exp, frac in [0.5, 1)
	e := exp + 14
	if e <= 0 {
		return sign
	}

	return sign | uint16(e)<<10 | uint16((2*frac-1)*1024)
}
