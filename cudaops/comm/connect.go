package comm

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/sink/base/proc"
)

// Environment variables for the processes of ranks.
const (
	callVar  = "AICPLAN_RANK_CALL"  // host:port of the worker, comma-separated
	tokenVar = "AICPLAN_RANK_TOKEN" // proves that this worker started the process
)

// Environment variables with the number of a process, globally and on its node: that of launchHere, and those
// of common launchers.
var (
	rankVars  = []string{"AICPLAN_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK"}
	localVars = []string{
		"AICPLAN_LOCAL_RANK",
		"SLURM_LOCALID",
		"OMPI_COMM_WORLD_LOCAL_RANK",
		"MPI_LOCALRANKID",
		"LOCAL_RANK",
	}
)

// greeting is the first message from a rank's process to the worker.
type greeting struct {
	Token string `json:"token"`
	Rank  int    `json:"rank"`
	Local int    `json:"local"`
	Node  string `json:"node"`
}

// connect starts the processes of the ranks and accepts a connection of each.
func (g *group) connect(ctx context.Context) error {
	listeners, err := g.listen()
	if err != nil {
		return err
	}

	var at []string
	for _, l := range listeners {
		defer l.Close()
		at = append(at, l.Addr().String())
	}

	token := rand.Text()
	if g.running, err = g.launch([]string{callVar + "=" + strings.Join(at, ","), tokenVar + "=" + token}); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	arrived := make(chan *member)
	for _, l := range listeners {
		go accept(ctx, l, token, arrived)
	}

	g.members = make([]*member, g.ranks)
	for left := g.ranks; left > 0; {
		select {
		case m := <-arrived:
			if err := g.admit(m); err != nil {
				m.conn.Close()
				return err
			}
			left--

		case how := <-g.running.ended:
			return fmt.Errorf("a process ended (%s) before %d of %d ranks had connected", how, left, g.ranks)

		case <-ctx.Done():
			return fmt.Errorf("%w: %d of them have not connected", context.Cause(ctx), left)
		}
	}

	return nil
}

func (g *group) admit(m *member) error {
	if m.rank < 0 || m.rank >= g.ranks {
		return fmt.Errorf("a process on %s is rank %d of %d: the launcher started too many", m.node, m.rank, g.ranks)
	}
	if other := g.members[m.rank]; other != nil {
		return fmt.Errorf(
			"two processes, on %s and %s, are rank %d: the launcher must give each a number of its own in one of %s",
			other.node, m.node, m.rank, strings.Join(rankVars[1:], ", "))
	}
	g.members[m.rank] = m
	return nil
}

// accept sends the connections of ranks to arrived until the listener is closed.
func accept(ctx context.Context, l net.Listener, token string, arrived chan<- *member) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}

		go func() {
			m := greet(conn, token)
			if m == nil {
				conn.Close() // not a rank of this worker
				return
			}
			select {
			case arrived <- m:
			case <-ctx.Done():
				conn.Close()
			}
		}()
	}
}

// greetTime bounds how long a new connection may take to send its first line.
const greetTime = 10 * time.Second

// greet reads the first line of a connection. It returns nil if the line is invalid or has the wrong token.
func greet(conn net.Conn, token string) *member {
	_ = conn.SetReadDeadline(time.Now().Add(greetTime)) // on error, the read below fails
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	lines.Scan()
	var hello greeting
	if json.Unmarshal(lines.Bytes(), &hello) != nil ||
		subtle.ConstantTimeCompare([]byte(hello.Token), []byte(token)) != 1 {
		return nil
	}
	if conn.SetReadDeadline(time.Time{}) != nil {
		return nil
	}

	return &member{rank: hello.Rank, node: hello.Node, local: hello.Local, conn: conn, lines: lines,
		orders: json.NewEncoder(conn)}
}

func firstNumber(names []string) (int, bool) {
	for _, name := range names {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n, true
		}
	}
	return 0, false
}

// dialTime bounds the connection attempt to one address of the worker.
const dialTime = 10 * time.Second

// callWorker connects a rank's process to the worker that started it.
func callWorker() (net.Conn, error) {
	at := os.Getenv(callVar)
	if at == "" {
		return nil, errors.New("ranks are started by a worker, not by hand")
	}

	hello := greeting{Token: os.Getenv(tokenVar), Node: proc.NodeName()}
	var ok bool
	if hello.Rank, ok = firstNumber(rankVars); !ok {
		return nil, fmt.Errorf("the launcher has given this process no number: one of %s", strings.Join(rankVars[1:], ", "))
	}
	if hello.Local, ok = firstNumber(localVars); !ok {
		return nil, fmt.Errorf("the launcher has not numbered the processes of a node: one of %s",
			strings.Join(localVars[1:], ", "))
	}

	// Do not pass the token to NCCL and child processes.
	if err := errors.Join(os.Unsetenv(callVar), os.Unsetenv(tokenVar)); err != nil {
		return nil, err
	}

	var errs []error
	for to := range strings.SplitSeq(at, ",") {
		conn, err := net.DialTimeout("tcp", to, dialTime)
		if err == nil {
			err = json.NewEncoder(conn).Encode(hello)
		}
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}

	return nil, fmt.Errorf("rank %d on %s cannot reach its worker; NCCL_SOCKET_IFNAME names the network to use: %w",
		hello.Rank, hello.Node, errors.Join(errs...))
}

// listenLocally opens a port for ranks on this node.
func listenLocally() ([]net.Listener, error) {
	l, err := net.Listen("tcp", "localhost:0")
	return []net.Listener{l}, err
}

// listenForRanks opens a TCP port on each address that ranks can connect to: on the interfaces selected by
// NCCL_SOCKET_IFNAME, or on all except loopback and docker.
func listenForRanks() ([]net.Listener, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}

	want := os.Getenv("NCCL_SOCKET_IFNAME")
	var out []net.Listener
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || !wantInterface(want, i.Name, i.Flags&net.FlagLoopback != 0) {
			continue
		}

		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface has been removed
		}

		for _, a := range addrs {
			ip, ok := a.(*net.IPNet)
			if !ok || ip.IP.IsLinkLocalUnicast() {
				continue
			}
			if l, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0")); err == nil {
				out = append(out, l)
			}
		}
	}

	if len(out) == 0 {
		if want != "" {
			return nil, fmt.Errorf("no network of this node is one of NCCL_SOCKET_IFNAME=%s", want)
		}
		return nil, errors.New(
			"this node has no network that ranks on other nodes could reach; NCCL_SOCKET_IFNAME=lo is for ranks on this one",
		)
	}

	return out, nil
}

// wantInterface reports whether NCCL_SOCKET_IFNAME selects an interface. As in NCCL, it is a
// comma-separated list of prefixes; a leading "=" requires exact names, and a leading "^" excludes the
// listed ones.
func wantInterface(want, name string, loopback bool) bool {
	if want == "" {
		return !loopback && !strings.HasPrefix(name, "docker")
	}

	list, not := strings.CutPrefix(want, "^")
	list, exact := strings.CutPrefix(list, "=")
	hit := slices.ContainsFunc(strings.Split(list, ","), func(w string) bool {
		return name == w || !exact && w != "" && strings.HasPrefix(name, w)
	})
	return hit != not && !(not && loopback)
}
