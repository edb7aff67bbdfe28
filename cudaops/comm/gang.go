package comm

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicplan/cudaops/driver"
)

// gang manages ranks on several nodes. One command, usually srun, starts a process for each rank, which
// then connects to the worker by TCP. A lost rank cannot be restarted alone, so the whole gang is
// restarted.
type gang struct {
	nodes, perNode int
	argv           []string // may contain the placeholders of launchWords
	verb           string   // verb of this program, appended to argv
	listen         func() ([]net.Listener, error)
	startup        time.Duration
	word           time.Duration // how long to wait for the launcher's message about an ended rank
	limit          float64
	say            io.Writer // the worker's log
	env            []string  // additional environment variables of the launcher

	running *launched
	names   []string // node names by node number, set by muster
	uuids   []string // device UUIDs by rank, set by muster
}

// launchWords replaces the placeholders {nodes}, {gpus_per_node} and {ranks} in a command.
func launchWords(argv []string, nodes, perNode int) []string {
	fill := strings.NewReplacer("{nodes}", strconv.Itoa(nodes), "{gpus_per_node}", strconv.Itoa(perNode), "{ranks}",
		strconv.Itoa(nodes*perNode))
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = fill.Replace(a)
	}
	return out
}

// Srun is the default launcher: one process per GPU, filling one node after the other. The crew handles
// dead ranks, so srun must not end the others.
var Srun = []string{
	"srun", "--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={gpus_per_node}", "--distribution=block",
	"--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--input=none", "--overlap",
}

// Environment variables for the processes of ranks.
const (
	callVar  = "AICPLAN_RANK_CALL"  // host:port of the worker, comma-separated
	tokenVar = "AICPLAN_RANK_TOKEN" // proves that this worker started the process
)

// caller is the first message from a rank's process to the worker.
type caller struct {
	Token string `json:"token"`
	Rank  int    `json:"rank"`
	Local int    `json:"local"`
	Node  string `json:"node"`
}

func newGang(o options) *gang {
	argv := o.rankLauncher
	if len(argv) == 0 {
		argv = Srun
	}
	return &gang{nodes: o.nodes, perNode: o.perNode, argv: argv, verb: RankVerb, listen: listenForRanks,
		startup: 90 * time.Second, word: endGrace, limit: o.limit, say: os.Stderr}
}

func (g *gang) ranks() int { return g.nodes * g.perNode }

func (g *gang) crew() *crew {
	c := newCrew(nil, g.limit)
	c.muster = g.muster
	return c
}

// launched is a running launcher command.
type launched struct {
	kill func()
	done chan struct{} // closed when the command has ended
	mu   sync.Mutex
	tail []byte // end of the output
	err  error
}

// Write keeps the last 2000 bytes of the launcher's output.
func (l *launched) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	l.tail = l.tail[max(0, len(l.tail)-2000):]
	return len(p), nil
}

// said returns the last three lines of the launcher's output for an error message, or "".
func (l *launched) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.FieldsFunc(string(bytes.TrimSpace(l.tail)), func(r rune) bool { return r == '\n' })
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[max(0, len(lines)-3):], " / ")
}

// awaitWord waits until the launcher has printed something new or ended, but no longer than within.
// Launchers report an ended rank with a delay. before is the result of said while all ranks were running.
func (l *launched) awaitWord(before string, within time.Duration) {
	for waited := time.Duration(0); waited < within; waited += endGrace / 4 {
		select {
		case <-l.done:
			return
		case <-time.After(endGrace / 4):
		}
		if l.said() != before {
			return
		}
	}
}

// launch starts the command, followed by this program and its verb for ranks.
func (g *gang) launch(env []string) (*launched, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}

	argv := append(launchWords(g.argv, g.nodes, g.perNode), exe, g.verb)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), g.env...), env...)
	l := &launched{done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = g.say, io.MultiWriter(g.say, l)
	cmd.WaitDelay = endGrace // ranks may keep the output open

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the ranks cannot be started by %s: %w; rank_launcher of the runtime names another command", argv[0], err)
	}

	l.kill = func() { _ = cmd.Process.Kill() } // an error means that it has already ended
	go func() {
		l.err = cmd.Wait()
		close(l.done)
	}()

	return l, nil
}

// retire waits until the launcher ends after its ranks were ended, and kills it after a grace period.
func (g *gang) retire() {
	if g.running == nil {
		return
	}

	timer := time.NewTimer(2 * endGrace)
	defer timer.Stop()
	select {
	case <-g.running.done:
	case <-timer.C:
		g.running.kill()
		<-g.running.done
	}

	g.running = nil
}

// muster starts the ranks of all nodes and returns when all of them are ready.
func (g *gang) muster(ctx context.Context) (members []member, err error) {
	g.retire()
	ctx, cancel := context.WithTimeoutCause(ctx, g.startup,
		fmt.Errorf("not all of %d ranks were ready within %v", g.ranks(), g.startup))
	defer cancel()
	listeners, err := g.listen()
	if err != nil {
		return nil, err
	}

	var at []string
	for _, l := range listeners {
		defer l.Close()
		at = append(at, l.Addr().String())
	}

	var secret [16]byte
	rand.Read(secret[:])
	token := hex.EncodeToString(secret[:])
	l, err := g.launch([]string{callVar + "=" + strings.Join(at, ","), tokenVar + "=" + token})
	if err != nil {
		return nil, err
	}

	g.running = l
	calls, err := g.gather(ctx, listeners, token, l)
	if err == nil {
		err = g.placed(calls)
	}

	if err == nil {
		members, err = g.open(ctx, calls, l)
	}

	if err != nil {
		for _, c := range calls {
			if c != nil {
				c.conn.Close()
			}
		}
		l.kill()
		g.retire()
		return nil, err
	}

	fmt.Fprintf(g.say, "%d ranks on %s\n", g.ranks(), strings.Join(g.names, " "))
	return members, nil
}

// call is the connection of a rank's process.
type call struct {
	caller
	conn  net.Conn
	lines io.Reader
}

// gather accepts the connections of all ranks and returns them by rank. On error, it returns those accepted
// so far.
func (g *gang) gather(ctx context.Context, listeners []net.Listener, token string, l *launched) ([]*call, error) {
	arrived := make(chan *call)
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	for _, lis := range listeners {
		go func() {
			for {
				conn, err := lis.Accept()
				if err != nil {
					return // the listener was closed
				}

				go func() {
					c := greet(conn, token)
					if c == nil {
						conn.Close() // not a rank of this worker
						return
					}
					select {
					case arrived <- c:
					case <-ctx.Done():
						conn.Close()
					}
				}()
			}
		}()
	}

	calls := make([]*call, g.ranks())
	for left := len(calls); left > 0; {
		select {
		case c := <-arrived:
			switch {
			case c.Rank < 0 || c.Rank >= len(calls):
				c.conn.Close()
				return calls, fmt.Errorf("a process on %s is rank %d of %d: %s started too many", c.Node, c.Rank,
					len(calls), g.argv[0])
			case calls[c.Rank] != nil:
				c.conn.Close()
				return calls, fmt.Errorf("two processes, on %s and %s, are rank %d: %s must give each a number of its own in SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK or RANK", calls[c.Rank].Node, c.Node, c.Rank, g.argv[0])
			}
			calls[c.Rank] = c
			left--

		case <-l.done:
			return calls, fmt.Errorf("%s ended (%v) when %d of %d ranks had not called%s", g.argv[0],
				exitText(l.err), left, len(calls), l.said())

		case <-ctx.Done():
			return calls, fmt.Errorf("%w: %d of them have not called%s", context.Cause(ctx), left, l.said())
		}
	}

	return calls, nil
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// greetTime bounds how long a new connection may take to send its first line.
const greetTime = 10 * time.Second

// greet reads the first line of a connection. It returns nil if the line is invalid or has the wrong token.
func greet(conn net.Conn, token string) *call {
	_ = conn.SetReadDeadline(time.Now().Add(greetTime)) // on error, the read below fails
	var line []byte
	one := make([]byte, 1)

	for len(line) < 4096 {
		if _, err := io.ReadFull(conn, one); err != nil {
			return nil
		}
		if one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}

	c := &call{conn: conn, lines: conn}
	if json.Unmarshal(line, &c.caller) != nil || subtle.ConstantTimeCompare([]byte(c.Token), []byte(token)) != 1 {
		return nil
	}

	if conn.SetReadDeadline(time.Time{}) != nil {
		return nil
	}

	return c
}

// placed checks that consecutive ranks fill one node after the other and sets g.names. The placement
// determines which nodes a communicator with fewer ranks spans.
func (g *gang) placed(calls []*call) error {
	g.names = nil
	for i, c := range calls {
		first := calls[i-i%g.perNode]
		if c.Node != first.Node {
			return fmt.Errorf("rank %d is on %s and rank %d on %s, but %d ranks belong on each node: let %s fill the nodes one after the other", first.Rank, first.Node, i, c.Node, g.perNode, g.argv[0])
		}
		if i%g.perNode == 0 {
			if slices.Contains(g.names, c.Node) {
				return fmt.Errorf("the ranks are on fewer than %d nodes: %s has more than %d of them", g.nodes,
					c.Node, g.perNode)
			}
			g.names = append(g.names, c.Node)
		}
	}

	return nil
}

// open opens the device of each rank and returns the members. It returns an error if a rank fails, or if
// GPUs or NCCL versions differ between ranks.
func (g *gang) open(ctx context.Context, calls []*call, l *launched) ([]member, error) {
	members, quiet := make([]member, len(calls)), l.said()
	abouts := make([]*about, len(calls))
	errs := make([]error, len(calls))
	var wg sync.WaitGroup

	for i, c := range calls {
		lost := fmt.Errorf("the connection to it on %s was closed", c.Node)
		pipes := &rankPipes{
			orders: c.conn, replies: c.lines, kill: func() { _ = c.conn.Close() },
			reaped: sync.OnceValue(func() error {
				l.awaitWord(quiet, g.word)
				return errors.New(lost.Error() + l.said())
			}),
		}

		m := newProcess(i, pipes)
		members[i] = m
		wg.Go(func() {
			abouts[i], errs[i] = m.open(ctx, opening{Rank: i, Apart: true, Device: driver.Device(c.Local)}, g.startup)
			if errs[i] != nil {
				errs[i] = fmt.Errorf("rank %d on %s: %w", i, c.Node, errs[i])
			}
		})
	}

	wg.Wait()
	err := errors.Join(errs...)
	g.uuids = make([]string, len(calls))

	for i, a := range abouts {
		if err != nil || a == nil {
			break
		}
		g.uuids[i] = a.UUID
		if b := abouts[0]; a.Device != b.Device || a.NCCL != b.NCCL {
			err = fmt.Errorf("rank %d on %s has %s with NCCL %s, and rank 0 on %s %s with %s: give the job nodes of one kind", i, calls[i].Node, a.Device, a.NCCL, calls[0].Node, b.Device, b.NCCL)
		}
	}

	if err != nil {
		for _, m := range members {
			m.end()
		}
		return nil, err
	}

	return members, nil
}

// nodesOf returns the number of nodes that the first ranks occupy.
func (g *gang) nodesOf(ranks int) int { return (ranks + g.perNode - 1) / g.perNode }

// places returns the node names and device UUIDs of a communicator, separated by spaces.
func (g *gang) places(ranks int) (nodes, devices string) {
	return strings.Join(g.names[:min(g.nodesOf(ranks), len(g.names))],
		" "), strings.Join(g.uuids[:min(ranks, len(g.uuids))], " ")
}
