//go:build linux

package comm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/worker"
)

type fakeCompiler struct{}

func (fakeCompiler) Compile(p cuda.Program) ([]byte, error) { return []byte(p.Name), nil }
func (fakeCompiler) Version() (int, int)                    { return 13, 0 }

// fakeNode returns a node with the given number of GPUs and the package's kernels.
func fakeNode(gpus int) (*machine, *Node) {
	n := newMachine(gpus)
	n.Kernels["comm_fill"] = fakeFill
	n.Kernels["comm_check"] = fakeCheck
	return n, &Node{
		KernelDriver: "580.1.2",
		Driver:       n, NCCL: fakeNCCL{machine: n}, Compile: fakeCompiler{}, Clock: n,
	}
}

// fakePattern implements pattern.cu in Go.
func fakePattern(rank uint32, i uint64) uint32 {
	h := uint32(i^i>>32) * 2654435761
	return (h>>15 + 3*rank + uint32(i>>20)) % 8
}

func fakeFill(memory func(cuda.Ptr, int64) []byte, a []any) {
	at, count, rank, t := a[0].(cuda.Ptr), a[1].(uint64), a[2].(uint32), cuda.NCCLType(a[3].(int32))
	b := memory(at, int64(count)*t.Size())
	for i := range count {
		fakePut(b[int64(i)*t.Size():], float64(fakePattern(rank, i)), t)
	}
}

func fakeCheck(memory func(cuda.Ptr, int64) []byte, a []any) {
	count, ranks, src := a[1].(uint64), a[3].(uint32), a[4].(uint32)
	base, part, t := a[5].(uint64), a[6].(uint64), cuda.NCCLType(a[7].(int32))
	b := memory(a[0].(cuda.Ptr), int64(count)*t.Size())
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
		if t.Matrix().Value(b[int64(i)*t.Size():]) != float64(want) {
			wrong++
			first = min(first, i)
		}
	}
	tally := memory(a[8].(cuda.Ptr), tallyBytes)
	binary.LittleEndian.PutUint64(tally, wrong)
	binary.LittleEndian.PutUint64(tally[8:], first)
}

// fakeRanks runs ranks in this process. They connect like processes.
type fakeRanks struct {
	node *Node

	mu     sync.Mutex
	starts int
	conns  []net.Conn // of the last start
}

func (f *fakeRanks) group(o settings, devices []cuda.Device) *group {
	g := newGroup(o, devices)
	g.launch = func(env []string) (*launched, error) { return f.launch(g.ranks, env) }
	return g
}

func (f *fakeRanks) launch(ranks int, env []string) (*launched, error) {
	_, at, _ := strings.Cut(env[0], "=")
	_, token, _ := strings.Cut(env[1], "=")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts, f.conns = f.starts+1, nil

	var all sync.WaitGroup
	for i := range ranks {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			return nil, err
		}
		if err := json.NewEncoder(conn).Encode(greeting{Token: token, Rank: i, Local: i, Node: "node0"}); err != nil {
			return nil, err
		}
		f.conns = append(f.conns, conn)
		all.Go(func() {
			// The rank's error is that its connection was closed.
			_ = serveRank(func() (*Node, error) { return f.node, nil }, conn, conn, func() {})
			conn.Close()
		})
	}

	return &launched{why: func(int) string { return "SIGKILL" }, stop: all.Wait}, nil
}

// kill ends a rank by closing its connection.
func (f *fakeRanks) kill(rank int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[rank].Close()
}

func (f *fakeRanks) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// bench is a host on a fake node.
type bench struct {
	t     *testing.T
	fake  *machine
	ranks *fakeRanks
	kill  func(rank int) // ends the process of a rank
	host  *host
	hello worker.Hello
	seq   int64
}

func newBench(t *testing.T, gpus int, options map[string]any, settings string) *bench {
	t.Helper()
	fake, node := fakeNode(gpus)
	b := &bench{t: t, fake: fake, ranks: &fakeRanks{node: node}}
	b.kill = b.ranks.kill
	init := worker.Init{Kind: "nccl", Device: -1, Options: options, Measure: json.RawMessage(settings)}
	b.host = &host{init: init, open: func() (*Node, error) { return node, nil }, newGroup: b.ranks.group}
	var err error
	if b.hello, err = b.host.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := options["rank_deadline"]; !ok {
		b.host.options.RankDeadline = 10 * deadline // the fake clock runs ahead of ranks that wait for a processor
	}
	t.Cleanup(func() {
		b.host.group.stop()
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
	v, err := b.host.visitor(worker.Case{Seq: b.seq, ID: fmt.Sprint("case", b.seq), Op: op,
		Params: json.RawMessage(params)})
	if err != nil {
		return nil, err
	}
	for {
		rows, _, done, err := v.Visit(b.t.Context())
		if err != nil {
			return nil, err
		}
		if done {
			return rows[0], nil
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
	return &results{rows: map[int64]worker.Row{}, errs: map[int64]worker.Failure{}, starts: map[int64]int{},
		ended: make(chan int64, 4096)}
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

// dieIn ends the last rank of a communicator in a collective, as a crash of the driver does.
func (b *bench) dieIn(name string) {
	killed := false
	b.fake.Stall = func(o fakeOp) bool {
		if o.Name == name && !killed {
			killed = true
			b.kill(o.Ranks - 1)
			return true
		}
		return false
	}
}
