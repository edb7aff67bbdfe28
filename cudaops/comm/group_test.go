//go:build linux

package comm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/proc"
	"aicplan/sink/base/testutil"
)

// The test binary is started by launchers (relayVerb) and also is a launcher (launchVerb). A relay is the
// process of a rank whose fake device and NCCL are in the test's process. It forwards orders to that
// process and replies back.
const (
	relayVerb  = "relay-rank"
	launchVerb = "launch-ranks"
	hubVar     = "COMM_TEST_HUB"
)

func relayMain() int {
	worker, err := callWorker()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	local, _ := firstNumber(localVars)
	hub, err := net.Dial("tcp", os.Getenv(hubVar))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintf(hub, "%s %d\n", proc.NodeName(), local)
	go func() {
		_, _ = io.Copy(worker, hub)
		// The rank is dead.
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
	_, _ = io.Copy(hub, worker)
	return 0
}

// launchMain imitates srun: launch-ranks NODES RANKS_PER_NODE HOW PROGRAM VERB.
func launchMain(args []string) int {
	nodes, _ := strconv.Atoi(args[0])
	perNode, _ := strconv.Atoi(args[1])
	how, program := args[2], args[3:]
	if how == "refuses" {
		fmt.Fprintln(os.Stderr, "srun: error: Unable to create step for job 7: More processors requested than permitted")
		return 1
	}
	var running []*exec.Cmd
	for i := range nodes * perNode {
		if how == "too_few" && i == 0 {
			continue
		}
		node, rank := i/perNode, i
		switch how {
		case "cyclic":
			node = i % nodes
		case "same_number":
			rank = 0
		}
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), fmt.Sprint("SLURM_PROCID=", rank), fmt.Sprint("SLURM_LOCALID=", i%perNode),
			fmt.Sprint("SLURMD_NODENAME=node", node))
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		running = append(running, cmd)
	}
	var code atomic.Int32
	var all sync.WaitGroup
	for i, cmd := range running {
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				fmt.Fprintf(os.Stderr, "srun: error: task %d: %v\n", i, err)
				code.Store(1)
			}
		})
	}
	all.Wait()
	return int(code.Load())
}

// nodeDriver shows the GPUs of one of several nodes.
type nodeDriver struct {
	*machine
	first, count int
}

func (d nodeDriver) Count() (int, error) { return d.count, nil }

func (d nodeDriver) Info(i cuda.Device) (cuda.DeviceInfo, error) {
	return d.machine.Info(i + cuda.Device(d.first))
}

func (d nodeDriver) Primary(i cuda.Device) (cuda.Context, error) {
	return d.machine.Primary(i + cuda.Device(d.first))
}

// hub runs the ranks whose processes are relays.
type hub struct {
	node    *Node
	fake    *machine
	perNode int

	mu    sync.Mutex
	names []string
	conns map[int]net.Conn // by rank, if ranks fill one node after the other
}

// kill ends the process of a rank by closing the connection of its relay.
func (h *hub) kill(rank int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[rank].Close()
}

func (h *hub) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewReader(conn)
	first, err := lines.ReadString('\n')
	if err != nil {
		return
	}
	var name string
	var local int
	if _, err := fmt.Sscan(first, &name, &local); err != nil {
		return
	}
	h.mu.Lock()
	at := slices.Index(h.names, name)
	if at < 0 {
		at = len(h.names)
		h.names = append(h.names, name)
	}
	node, number := at, 0
	if n, err := fmt.Sscanf(name, "node%d", &number); n == 1 && err == nil {
		node = number
	}
	h.conns[node*h.perNode+local] = conn
	h.mu.Unlock()
	open := func() (*Node, error) {
		n := *h.node
		n.Driver = nodeDriver{h.fake, at * h.perNode, h.perNode}
		return &n, nil
	}
	_ = serveRank(open, lines, conn, func() {})
}

// newNodesBench returns a host with ranks on the given number of nodes.
func newNodesBench(t *testing.T, nodes, perNode int, how string) (*bench, *atomic.Int32) {
	t.Helper()
	launcher := []string{testBinary(t), launchVerb, "{nodes}", "{gpus_per_node}", how}
	return nodesBench(t, nodes, perNode, launcher)
}

func testBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func nodesBench(t *testing.T, nodes, perNode int, launcher []string) (*bench, *atomic.Int32) {
	t.Helper()
	fake, node := fakeNode(nodes * perNode)
	fake.Latency = latencyOf
	h := &hub{node: node, fake: fake, perNode: perNode, conns: map[int]net.Conn{}}
	lis := loopback(t)
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go h.serve(conn)
		}
	}()
	b := &bench{t: t, fake: fake, kill: h.kill}
	options := map[string]any{"rank_deadline": deadline}
	if nodes > 1 {
		options = map[string]any{"nodes": float64(nodes), "gpus_per_node": float64(perNode), "rank_launcher": launcher,
			"rank_deadline": deadline}
	}
	b.host = &host{
		init: worker.Init{Kind: "nccl", Device: -1, Measure: json.RawMessage(quick), Options: options},
		open: func() (*Node, error) { return node, nil },
	}
	starts := &atomic.Int32{}
	b.host.newGroup = func(o settings, devices []cuda.Device) *group {
		g := newGroup(o, devices)
		g.log = t.Output()
		// For the test's process only. The launcher's children inherit it.
		hub := hubVar + "=" + lis.Addr().String()
		g.launch = func(env []string) (*launched, error) {
			starts.Add(1)
			if nodes == 1 {
				return launchHere(perNode, relayVerb, append(env, hub))
			}
			return launchWith(launchWords(o.launcher(), nodes, perNode), relayVerb, append(env, hub), g.log)
		}
		g.listen = listenLocally
		return g
	}
	var err error
	if b.hello, err = b.host.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.host.group.stop()
		for _, p := range fake.Problems() {
			t.Errorf("misuse: %s", p)
		}
	})
	return b, starts
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func ncclMethod(op string, gpus int, method string) string {
	return fmt.Sprintf(`{"op_name":%q,"nccl_dtype":"half","num_gpus":%d,"message_size":1024,"method":%q}`, op, gpus,
		method)
}

// measureAcross measures collectives with both methods over the nodes of a bench.
func measureAcross(t *testing.T, b *bench, nodes, perNode int) {
	t.Helper()
	most := nodes * perNode
	if b.hello.Env["gpus"] != fmt.Sprint(most) || b.hello.Env["nodes"] != fmt.Sprint(nodes) {
		t.Errorf("the host reports %v", b.hello.Env)
	}
	for _, method := range []string{MethodEager, MethodGraph} {
		for _, gpus := range slices.Compact([]int{2, most}) {
			row := b.must(OpNCCL, ncclMethod(AllReduce, gpus, method))
			l, err := newLayout(AllReduce, dataTypes["half"], gpus, 1024)
			if err != nil {
				t.Fatal(err)
			}
			want := latencyOf(fakeOp{Bytes: l.bytes, Ranks: gpus}).Seconds() * 1e3
			if got := row["latency"].(float64); !near(got, want) {
				t.Errorf("%s, %d GPUs: latency %v ms, the machine takes %v", method, gpus, got, want)
			}
			if n := row["nodes"].(int); n != (gpus+perNode-1)/perNode || row["gpus_per_node"] != perNode ||
				row["method"] != method {
				t.Errorf("%s, %d GPUs: row %v", method, gpus, row)
			}
			names, uuids := strings.Fields(fmt.Sprint(row["node_names"])), strings.Fields(fmt.Sprint(row["device_uuids"]))
			slices.Sort(names)
			slices.Sort(uuids)
			if len(slices.Compact(names)) != row["nodes"] || len(slices.Compact(uuids)) != gpus {
				t.Errorf("%s, %d GPUs: on the nodes %q, on the devices %q", method, gpus, row["node_names"], row["device_uuids"])
			}
			if row["checked"].(int64) < 2*l.recv*int64(gpus) {
				t.Errorf("%s, %d GPUs: only %v elements were checked", method, gpus, row["checked"])
			}
		}
	}
	if got := len(b.fake.Used()); got != most {
		t.Errorf("%d devices were used, want %d", got, most)
	}
}

// TestRanksAcrossNodes measures with both methods over 2, 8 and 16 nodes. Each rank is a process that was
// started by a launcher and connects by TCP.
func TestRanksAcrossNodes(t *testing.T) {
	sizes := [][2]int{{2, 1}, {8, 4}}
	if testutil.All() {
		sizes = append(sizes, [2]int{16, 4})
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("%d nodes of %d", size[0], size[1]), func(t *testing.T) {
			b, starts := newNodesBench(t, size[0], size[1], "block")
			measureAcross(t, b, size[0], size[1])
			if n := starts.Load(); n != 1 {
				t.Errorf("the ranks were started %d times", n)
			}
		})
	}
}

// TestRanksAcrossNodesRestartAfterDeath checks that only the case of a dead rank fails and that all ranks are restarted
// for the next case. A wrong sum fails the case but keeps the ranks.
func TestRanksAcrossNodesRestartAfterDeath(t *testing.T) {
	t.Parallel()
	b, starts := newNodesBench(t, 2, 2, "block")
	b.must(OpNCCL, ncclMethod(AllGather, 4, MethodGraph))
	b.dieIn("reduce_scatter")
	b.fake.Corrupt = func(o fakeOp, rank int) bool { return o.Name == "alltoall" && rank == 3 }
	f := b.fails(worker.ClassFrameworkBug, "the connection to it on node1 was closed: srun: error: task 3: signal: killed",
		OpNCCL, ncclMethod(ReduceScatter, 4, MethodGraph))
	if f.Exception != "RankDied" || f.Fatal {
		t.Errorf("failure: %+v", f)
	}
	b.must(OpNCCL, ncclMethod(AllGather, 4, MethodEager))
	if n := starts.Load(); n != 2 {
		t.Errorf("the ranks were started %d times, want 2", n)
	}
	b.fails(worker.ClassFrameworkBug, "wrong result", OpNCCL, ncclMethod(AllToAll, 4, MethodEager))
	b.must(OpNCCL, ncclMethod(AllGather, 2, MethodEager))
	if n := starts.Load(); n != 2 {
		t.Errorf("a wrong sum started the ranks anew: %d starts", n)
	}
}

// TestLauncherFailureIsReported checks that launcher failures are reported with the launcher's output, and that
// no process remains.
func TestLauncherFailureIsReported(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"refuses":     "More processors requested than permitted",
		"too_few":     "of them have not connected",
		"same_number": "are rank 0:",
		"cyclic":      "let",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, _ := newNodesBench(t, 2, 2, how)
			if how == "too_few" {
				b.host.group.startup = 300 * time.Millisecond
			}
			_, err := b.run(OpNCCL, ncclMethod(AllReduce, 4, MethodEager))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if b.host.group.running != nil {
				t.Error("the launcher still runs")
			}
		})
	}
	b, _ := nodesBench(t, 2, 1, []string{filepath.Join(t.TempDir(), "absent")})
	if _, err := b.run(OpNCCL, ncclMethod(AllReduce, 2, MethodEager)); err == nil ||
		!strings.Contains(err.Error(), "rank_launcher of the runtime names another command") {
		t.Errorf("a launcher that is not there: %v", err)
	}
}

// TestRanksOfOneNodeAreProcesses starts ranks of one node as processes. Only the case of a dead rank fails.
func TestRanksOfOneNodeAreProcesses(t *testing.T) {
	t.Parallel()
	b, starts := nodesBench(t, 1, 3, nil)
	b.must(OpNCCL, ncclMethod(AllGather, 3, MethodGraph))
	b.dieIn("reduce_scatter")
	f := b.fails(worker.ClassFrameworkBug, "rank 2: the connection to it on ", OpNCCL,
		ncclMethod(ReduceScatter, 3, MethodEager))
	if f.Exception != "RankDied" || f.Fatal || !strings.HasSuffix(f.Message, "was closed: SIGKILL") {
		t.Errorf("failure: %+v", f)
	}
	b.must(OpNCCL, ncclMethod(AllGather, 2, MethodEager))
	if n := starts.Load(); n != 2 {
		t.Errorf("the ranks were started %d times, want 2", n)
	}
}

// TestUnsupportedAcrossNodes checks that copies and cases with too many GPUs are unsupported.
func TestUnsupportedAcrossNodes(t *testing.T) {
	t.Parallel()
	b, starts := newNodesBench(t, 2, 4, "block")
	b.fails(worker.ClassUnsupportedConfig, "p2p copies between GPUs of one node", OpP2P, `{"src":0,"dst":1,"bytes":64}`)
	b.fails(worker.ClassUnsupportedConfig, "16 GPUs are needed, and the runtime has 2 nodes with 4 each", OpNCCL,
		ncclMethod(AllReduce, 16, MethodEager))
	if starts.Load() != 0 {
		t.Error("ranks were started for nothing")
	}
}

// TestConnectionsNeedTheToken checks that connections without the token are rejected.
func TestConnectionsNeedTheToken(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"wrong token": `{"token":"guess","rank":0}` +
			"\n", "no JSON": "GET / HTTP/1.1\r\n\r\n", "nothing": "", "endless": strings.Repeat("x", 5000),
	} {
		lis := loopback(t)
		go func() {
			conn, err := net.Dial("tcp", lis.Addr().String())
			if err == nil {
				_, _ = io.WriteString(conn, line)
				conn.Close()
			}
		}()
		conn, err := lis.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if greet(conn, "secret") != nil {
			t.Errorf("%s was let in", name)
		}
		conn.Close()
	}
}

func TestWantInterface(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, name string
		loopback   bool
		yes        bool
	}{
		{"", "eth0", false, true}, {"", "lo", true, false}, {"", "docker0", false, false}, {"lo", "lo", true,
			true}, {"ib,eth", "eth1", false, true},
		{"=eth", "eth1", false, false}, {"=eth1", "eth1", false, true}, {"^eth", "eth1", false, false}, {"^eth", "ib0", false,
			true}, {"^eth", "lo", true, false},
	} {
		if got := wantInterface(tt.want, tt.name, tt.loopback); got != tt.yes {
			t.Errorf("NCCL_SOCKET_IFNAME=%q, %s: %v", tt.want, tt.name, got)
		}
	}
}

func TestOptionsOfNodes(t *testing.T) {
	t.Parallel()
	for want, options := range map[string]map[string]any{
		"set gpus_per_node":                       {"nodes": 2.0},
		"are for several nodes":                   {"gpus_per_node": 2.0},
		"nodes is 1.5; it must be a whole number": {"nodes": 1.5},
		"devices is for one node":                 {"nodes": 2.0, "gpus_per_node": 1.0, "devices": []int{0}},
		"it must be a list":                       {"nodes": 2.0, "gpus_per_node": 1.0, "rank_launcher": "srun"},
		"gpus_per_node is 1000000; ":              {"nodes": 2.0, "gpus_per_node": 1e6},
	} {
		if _, err := readOptions(worker.Init{Options: options}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", options, err, want)
		}
	}
	o, err := readOptions(worker.Init{Options: map[string]any{"nodes": 16.0, "gpus_per_node": 4.0}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(launchWords(o.launcher(), o.Nodes, o.GPUsPerNode), " ")
	if !strings.HasPrefix(got, "srun --nodes=16 --ntasks=64 --ntasks-per-node=4 --distribution=block ") {
		t.Errorf("ranks are started by %s", got)
	}
}
