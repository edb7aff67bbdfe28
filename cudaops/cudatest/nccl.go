//go:build linux

package cudatest

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
)

// Library is the fake NCCL of a node.
type Library struct{ *Node }

var _ nccl.API = Library{}

type group struct {
	ranks  int
	joined int
}

type comm struct {
	id    string
	rank  int
	ranks int
	gpu   int
	calls int
}

// pending is an open group of sends and receives.
type pending struct {
	comm  *comm
	s     driver.Stream
	parts []part
}

type part struct {
	recv bool
	peer int
	at   driver.Ptr
	size int64
}

// Version implements nccl.API.
func (l Library) Version() (int, error) { return 22809, nil }

// UniqueID implements nccl.API.
func (l Library) UniqueID() (id nccl.UniqueID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	binary.LittleEndian.PutUint64(id[:], l.handle())
	return id, nil
}

// InitRank implements nccl.API.
func (l Library) InitRank(nranks int, id nccl.UniqueID, rank int) (nccl.Comm, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := l.device("ncclCommInitRank")
	if err != nil {
		return 0, nccl.NewError("ncclCommInitRank", nccl.CodeUnhandledCudaError)
	}

	key := string(id[:8])
	g := l.groups[key]
	if g == nil {
		g = &group{ranks: nranks}
		l.groups[key] = g
	}

	if g.ranks != nranks || rank >= nranks {
		return 0, nccl.NewError("ncclCommInitRank", nccl.CodeInvalidArgument)
	}

	g.joined++
	l.moved.Broadcast()
	for g.joined < g.ranks {
		l.moved.Wait()
	}

	h := l.handle()
	l.comms[h] = &comm{id: key, rank: rank, ranks: nranks, gpu: d}
	l.counts["init"]++

	return nccl.Comm(h), nil
}

// comm returns a live communicator. The caller must have locked mu.
func (l Library) comm(call string, c nccl.Comm) (*comm, error) {
	found, ok := l.comms[uint64(c)]
	if !ok {
		l.problem("%s on a communicator that does not exist", call)
		return nil, nccl.NewError(call, nccl.CodeInvalidUsage)
	}
	return found, nil
}

// AsyncError implements nccl.API.
func (l Library) AsyncError(c nccl.Comm) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.comm("ncclCommGetAsyncError", c)
	return err
}

// GroupStart implements nccl.API.
func (l Library) GroupStart() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grouped[syscall.Gettid()] = &pending{}
	return nil
}

// GroupEnd implements nccl.API.
func (l Library) GroupEnd() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.grouped[syscall.Gettid()]
	delete(l.grouped, syscall.Gettid())
	if g == nil || g.comm == nil {
		return nil
	}

	var bytes int64
	for _, p := range g.parts {
		bytes = max(bytes, p.size)
	}

	return l.collective("send_recv", g.comm, g.s, bytes, []any{g.parts}, func(all []*work) {
		for _, w := range all {
			for _, p := range w.args[0].([]part) {
				if !p.recv {
					continue
				}
				for _, q := range all[p.peer].args[0].([]part) {
					if !q.recv && q.peer == w.rank {
						copy(l.bytes(p.at, p.size), l.bytes(q.at, q.size))
					}
				}
			}
		}
	})
}

// collective queues the work of one rank. The caller must have locked mu.
func (l Library) collective(name string, c *comm, s driver.Stream, bytes int64, args []any, run func([]*work)) error {
	return l.push(s, func() *work {
		no := c.calls
		c.calls++
		return &work{
			key: fmt.Sprintf("%x#%d", c.id, no), rank: c.rank, ranks: c.ranks, comm: c, args: args,
			op: Op{Name: name, Ranks: c.ranks, Bytes: bytes},
			run: func(all []*work) {
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
func (l Library) spread(name string, h nccl.Comm, s driver.Stream, send, recv driver.Ptr, sendBytes, recvBytes int64,
	run func(send, recv [][]byte)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.comm(name, h)
	if err != nil {
		return err
	}

	return l.collective(name, c, s, max(sendBytes, recvBytes), []any{send, recv}, func(all []*work) {
		ins, outs := make([][]byte, len(all)), make([][]byte, len(all))
		for i, w := range all {
			// Copy the inputs, because results overlap them in place.
			ins[i] = append([]byte(nil), l.bytes(w.args[0].(driver.Ptr), sendBytes)...)
			outs[i] = l.bytes(w.args[1].(driver.Ptr), recvBytes)
		}
		run(ins, outs)
		for i, w := range all {
			if l.Corrupt != nil && l.Corrupt(w.op, i) {
				outs[i][len(outs[i])-1] ^= 0x40
			}
		}
	})
}

// AllReduce implements nccl.API.
func (l Library) AllReduce(send, recv driver.Ptr, count int64, t nccl.DataType, _ nccl.RedOp, c nccl.Comm,
	s driver.Stream) error {
	n := count * t.Size()
	return l.spread("all_reduce", c, s, send, recv, n, n, func(in, out [][]byte) {
		Sum(out[0], in, 0, t)
		for r := range out {
			copy(out[r], out[0])
		}
	})
}

// AllGather implements nccl.API.
func (l Library) AllGather(send, recv driver.Ptr, count int64, t nccl.DataType, c nccl.Comm, s driver.Stream) error {
	n := count * t.Size()
	return l.spread("all_gather", c, s, send, recv, n, n*l.size(c), func(in, out [][]byte) {
		for r := range out {
			for i := range in {
				copy(out[r][int64(i)*n:], in[i])
			}
		}
	})
}

// ReduceScatter implements nccl.API.
func (l Library) ReduceScatter(send, recv driver.Ptr, count int64, t nccl.DataType, _ nccl.RedOp, c nccl.Comm,
	s driver.Stream) error {
	n := count * t.Size()
	return l.spread("reduce_scatter", c, s, send, recv, n*l.size(c), n, func(in, out [][]byte) {
		for r := range out {
			Sum(out[r], in, int64(r)*n, t)
		}
	})
}

// AllToAll implements nccl.API.
func (l Library) AllToAll(send, recv driver.Ptr, count int64, t nccl.DataType, c nccl.Comm, s driver.Stream) error {
	n := count * t.Size()
	return l.spread("alltoall", c, s, send, recv, n*l.size(c), n*l.size(c), func(in, out [][]byte) {
		for r := range out {
			for i := range in {
				copy(out[r][int64(i)*n:], in[i][int64(r)*n:int64(r+1)*n])
			}
		}
	})
}

// Broadcast implements nccl.API.
func (l Library) Broadcast(send, recv driver.Ptr, count int64, t nccl.DataType, root int, c nccl.Comm,
	s driver.Stream) error {
	n := count * t.Size()
	return l.spread("broadcast", c, s, send, recv, n, n, func(in, out [][]byte) {
		for r := range out {
			copy(out[r], in[root])
		}
	})
}

// Send implements nccl.API. It must be called inside a group.
func (l Library) Send(at driver.Ptr, count int64, t nccl.DataType, peer int, c nccl.Comm, s driver.Stream) error {
	return l.part("ncclSend", part{peer: peer, at: at, size: count * t.Size()}, c, s)
}

// Recv implements nccl.API. It must be called inside a group.
func (l Library) Recv(at driver.Ptr, count int64, t nccl.DataType, peer int, c nccl.Comm, s driver.Stream) error {
	return l.part("ncclRecv", part{recv: true, peer: peer, at: at, size: count * t.Size()}, c, s)
}

func (l Library) part(call string, p part, h nccl.Comm, s driver.Stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.comm(call, h)
	if err != nil {
		return err
	}

	g := l.grouped[syscall.Gettid()]
	if g == nil {
		return nccl.NewError(call, nccl.CodeInvalidUsage)
	}

	g.comm, g.s, g.parts = c, s, append(g.parts, p)
	return nil
}

func (l Library) size(h nccl.Comm) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.comms[uint64(h)]; ok {
		return int64(c.ranks)
	}
	return 1
}

// Sum adds the ranks' elements starting at byte offset at and stores the sums in out, rounded to the type.
func Sum(out []byte, in [][]byte, at int64, t nccl.DataType) {
	size := t.Size()
	for i := int64(0); i < int64(len(out)); i += size {
		var sum float64
		for _, b := range in {
			sum += Value(b[at+i:], t)
		}
		Put(out[i:], sum, t)
	}
}

// Value decodes one element.
func Value(b []byte, t nccl.DataType) float64 {
	switch t {
	case nccl.Int8:
		return float64(int8(b[0]))

	case nccl.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b)))

	case nccl.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))

	case nccl.Half:
		w := binary.LittleEndian.Uint16(b)
		exp, frac := int(w>>10&31), float64(w&1023)
		v := math.Ldexp(1+frac/1024, exp-15)
		switch {
		case exp == 0:
			v = math.Ldexp(frac/1024, -14)
		case exp == 31:
			v = math.Inf(1)
		}
		if w>>15 != 0 {
			v = -v
		}
		return v
	}

	panic(fmt.Sprintf("cudatest: no arithmetic for type %d", t))
}

// Put encodes one element. Values outside the range needed by the test patterns saturate.
func Put(b []byte, v float64, t nccl.DataType) {
	switch t {
	case nccl.Int8:
		b[0] = byte(int8(int64(v)))
	case nccl.Int32:
		binary.LittleEndian.PutUint32(b, uint32(int32(v)))
	case nccl.BFloat16:
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(v))>>16))
	case nccl.Half:
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
