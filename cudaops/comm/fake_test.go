//go:build linux

package comm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
	"aicplan/cudaops/nccl/nccltest"
	"aicplan/cudaops/nvrtc"
	"aicplan/cudaops/worker"
)

type fakeCompiler struct{}

func (fakeCompiler) Compile(p nvrtc.Program) ([]byte, error) { return []byte(p.Name), nil }
func (fakeCompiler) Version() (int, int)                     { return 13, 0 }

type fakePaths struct{ *nccltest.Node }

var _ Peers = fakePaths{}

func (fakePaths) P2P(a P2PAttribute, _, _ driver.Device) (int, error) {
	if a == P2PNativeAtomics {
		return 1, nil
	}
	return 0, nil
}

// fakeNode returns a node with the given number of GPUs and the package's kernels.
func fakeNode(gpus int) (*nccltest.Node, *Node) {
	n := nccltest.New(gpus)
	n.Kernels["comm_fill"] = nccltest.Kernel{Run: fakeFill}
	n.Kernels["comm_check"] = nccltest.Kernel{Run: fakeCheck}
	for _, via := range []string{viaOneShot, viaTwoShot} {
		for word, t := range map[string]nccl.DataType{"half": nccl.Half, "bfloat16": nccl.BFloat16} {
			for _, ranks := range []int{2, 4, 8} {
				n.Kernels[fmt.Sprintf("comm_%s_%s_%d", via, word, ranks)] = fakeReduce(via, ranks, t)
			}
		}
	}
	return n, &Node{
		KernelDriver: "580.1.2",
		Driver:       n, Peers: fakePaths{n}, NCCL: nccltest.Library{Node: n}, Compile: fakeCompiler{}, Clock: n,
		Links: func(a, b int) (int, bool) { return 18, true },
	}
}

// fakePattern implements pattern.cu in Go.
func fakePattern(rank uint32, i uint64) uint32 {
	h := uint32(i^i>>32) * 2654435761
	return (h>>15 + 3*rank + uint32(i>>20)) % 8
}

func fakeFill(memory func(driver.Ptr, int64) []byte, all [][]any) {
	a := all[0]
	at, count, rank, t := a[0].(driver.Ptr), a[1].(uint64), a[2].(uint32), nccl.DataType(a[3].(int32))
	b := memory(at, int64(count)*t.Size())
	for i := range count {
		nccltest.Put(b[int64(i)*t.Size():], float64(fakePattern(rank, i)), t)
	}
}

func fakeCheck(memory func(driver.Ptr, int64) []byte, all [][]any) {
	a := all[0]
	count, ranks, src := a[1].(uint64), a[3].(uint32), a[4].(uint32)
	base, part, t := a[5].(uint64), a[6].(uint64), nccl.DataType(a[7].(int32))
	b := memory(a[0].(driver.Ptr), int64(count)*t.Size())
	wrong, first := uint64(0), uint64(math.MaxUint64)
	for i := range count {
		want := uint32(0)
		switch expectation(a[2].(int32)) {
		case expectSum:
			for r := range ranks {
				want += fakePattern(r, base+i)
			}
		case expectGather:
			want = fakePattern(uint32(i/part), i%part)
		case expectExchange:
			want = fakePattern(uint32(i/part), base+i%part)
		case expectCopy:
			want = fakePattern(src, i)
		}
		if nccltest.Value(b[int64(i)*t.Size():], t) != float64(want) {
			wrong++
			first = min(first, i)
		}
	}
	tally := memory(a[8].(driver.Ptr), tallyBytes)
	binary.LittleEndian.PutUint64(tally, wrong)
	binary.LittleEndian.PutUint64(tally[8:], first)
}

// fakeReduce writes the sums to the result addresses of the peers.
func fakeReduce(via string, ranks int, t nccl.DataType) nccltest.Kernel {
	return nccltest.Kernel{
		Meet: func(args []any) (string, int, int) {
			if args[2].(uint64) == 0 {
				return "", 0, 0 // the launch that only loads the code
			}
			return fmt.Sprint(via, ranks, args[6].(driver.Ptr)), int(args[4].(uint32)), ranks
		},
		Run: func(memory func(driver.Ptr, int64) []byte, all [][]any) {
			bytes := int64(all[0][2].(uint64)) * 16
			ins := make([][]byte, ranks)
			for r, args := range all {
				ins[r] = append([]byte(nil), memory(args[0].(driver.Ptr), bytes)...)
			}
			for r, args := range all {
				out := args[1].(driver.Ptr)
				if via == viaTwoShot {
					out = all[(r+1)%ranks][6+2*maxRanks+r].(driver.Ptr)
				}
				nccltest.Sum(memory(out, bytes), ins, 0, t)
			}
		},
	}
}

// pipeRanks runs ranks over pipes like processes. Killing one breaks its pipes.
type pipeRanks struct {
	node   *Node
	mu     sync.Mutex
	spawns int
	kills  []func()
}

func (p *pipeRanks) spawn(no int) (*rankPipes, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	die := func() {
		inR.CloseWithError(io.EOF)
		outW.CloseWithError(io.EOF)
	}
	done := make(chan error, 1)
	go func() {
		err := serveRank(func() (*Node, error) { return p.node, nil }, inR, outW, die, func() {})
		outW.Close()
		done <- err
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawns++
	p.kills = append(p.kills, die)
	return &rankPipes{
		orders: inW, replies: outR, kill: die,
		reaped: sync.OnceValue(func() error {
			select {
			case err := <-done:
				return err
			default:
				return errors.New("signal: killed")
			}
		}),
	}, nil
}

func (p *pipeRanks) spawned() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spawns
}

// bench is a host on a fake node.
type bench struct {
	t     *testing.T
	fake  *nccltest.Node
	ranks *pipeRanks
	host  *host
	hello worker.Hello
	seq   int64
}

func newBench(t *testing.T, gpus int, options map[string]any, settings string) *bench {
	t.Helper()
	fake, node := fakeNode(gpus)
	b := &bench{t: t, fake: fake, ranks: &pipeRanks{node: node}}
	init := worker.Init{Kind: "nccl", Device: -1, Options: options, Measure: json.RawMessage(settings)}
	b.host = &host{init: init, open: func() (*Node, error) { return node, nil }, spawn: b.ranks.spawn}
	var err error
	if b.hello, err = b.host.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range fake.Problems() {
			t.Errorf("misuse: %s", p)
		}
	})
	return b
}

// run visits one case until it is measured.
func (b *bench) run(op, params string) (worker.Row, error) {
	b.t.Helper()
	b.seq++
	v, err := b.host.visitor(worker.Case{Seq: b.seq, ID: fmt.Sprint("case", b.seq), Op: op, Params: json.RawMessage(params)})
	if err != nil {
		return nil, err
	}
	for {
		row, done, err := v.visit(b.t.Context())
		if done || err != nil {
			return row, err
		}
	}
}

// results is an emitter that records all messages.
type results struct {
	mu     sync.Mutex
	rows   map[int64]worker.Row
	errs   map[int64]worker.Failure
	starts map[int64]int
	ended  chan int64
}

func newResults() *results {
	return &results{rows: map[int64]worker.Row{}, errs: map[int64]worker.Failure{}, starts: map[int64]int{}, ended: make(chan int64, 4096)}
}

func (r *results) Start(seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts[seq]++
}

func (r *results) Result(seq int64, rows []worker.Row, _ float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[seq] = rows[0]
	r.ended <- seq
}

func (r *results) Attach(int64, worker.Attachment) {}

func (r *results) Error(seq int64, f worker.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs[seq] = f
	r.ended <- seq
}

func (r *results) Log(string, string, ...any) {}

// serve sends cases to the host like an engine, with a limited number outstanding, and returns when all
// have ended.
func serve(ctx context.Context, h worker.Host, cases []worker.Case, window int) (*results, error) {
	res := newResults()
	in := make(chan worker.Case)
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, in, res) }()
	out := 0
	for i := 0; i < len(cases) || out > 0; {
		send, next := in, worker.Case{}
		if i < len(cases) && out < window {
			next = cases[i]
		} else {
			send = nil
		}
		select {
		case send <- next:
			i++
			out++
		case <-res.ended:
			out--
		case err := <-done:
			return res, err
		}
	}
	close(in)
	return res, <-done
}

func (b *bench) must(op, params string) worker.Row {
	b.t.Helper()
	row, err := b.run(op, params)
	if err != nil {
		b.t.Fatalf("%s %s: %v", op, params, err)
	}
	return row
}

// fails runs a case that must fail with a class and a text.
func (b *bench) fails(class, text, op, params string) worker.Failure {
	b.t.Helper()
	row, err := b.run(op, params)
	if err == nil {
		b.t.Fatalf("%s %s: measured %v, must fail with %q", op, params, row, text)
	}
	f := worker.FailureOf(err)
	if f.Class != class || !strings.Contains(f.Message, text) {
		b.t.Fatalf("%s %s: failed with %+v; want class %s and %q", op, params, f, class, text)
	}
	return f
}

func ncclCase(op, dtype string, gpus, size int) string {
	return fmt.Sprintf(`{"op_name":%q,"nccl_dtype":%q,"num_gpus":%d,"message_size":%d}`, op, dtype, gpus, size)
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }
