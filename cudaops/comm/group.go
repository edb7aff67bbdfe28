package comm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/cuda"
)

const (
	// joinSeconds bounds the creation of a communicator, in which NCCL explores the machine's topology.
	joinSeconds = 60
	// startup bounds the start of all ranks until their devices are open.
	startup = 90 * time.Second
	// endGrace is how long processes may take to exit, and launchers to report why a rank has ended.
	endGrace = 2 * time.Second
	// patience is how long a rank may exceed its limit, and how long to wait for the cause of a failure
	// that another rank may report. It exceeds endGrace, because the end of a rank is reported after it.
	patience = 3 * time.Second
)

// group runs tasks on ranks, one process per GPU. It is not safe for concurrent use.
type group struct {
	ranks, perNode int
	nodes          int // number of nodes
	devices        []cuda.Device
	limit          float64 // limit of tasks, in seconds
	startup        time.Duration

	listen func() ([]net.Listener, error)
	launch func(env []string) (*launched, error)
	log    io.Writer

	running *launched
	members []*member
	replies chan outcome
	joined  map[int]bool // existing communicators by number of ranks
	names   []string     // node names by node number
	uuids   []string     // device UUIDs by rank
}

// member is the connection to a rank.
type member struct {
	rank   int
	node   string
	local  int // number of the process on its node
	conn   net.Conn
	lines  *bufio.Scanner // that it sends
	orders *json.Encoder
}

// outcome is the response of one rank.
type outcome struct {
	rank   int
	report report
	err    *rankError
}

// newGroup returns the group of a runtime. The ranks are started for the first task.
func newGroup(o settings, devices []cuda.Device) *group {
	g := &group{ranks: len(devices), perNode: len(devices), nodes: 1, devices: devices, limit: o.RankDeadline,
		startup: startup, log: os.Stderr}

	g.listen, g.launch = listenLocally, func(env []string) (*launched, error) { return launchHere(g.ranks, RankVerb, env) }
	if o.Nodes > 1 {
		g.ranks, g.perNode, g.nodes = o.Nodes*o.GPUsPerNode, o.GPUsPerNode, o.Nodes
		argv := launchWords(o.launcher(), o.Nodes, o.GPUsPerNode)
		g.listen = listenForRanks
		g.launch = func(env []string) (*launched, error) { return launchWith(argv, RankVerb, env, g.log) }
	}

	return g
}

// start starts the ranks if they are not running, and opens their devices.
func (g *group) start(ctx context.Context) error {
	if g.running != nil {
		return nil
	}

	ctx, cancel := context.WithTimeoutCause(ctx, g.startup,
		fmt.Errorf("not all of %d ranks were ready within %v", g.ranks, g.startup))
	defer cancel()
	g.joined, g.replies = map[int]bool{}, make(chan outcome, 2*g.ranks)

	err := g.connect(ctx)
	if err == nil {
		err = g.placed()
	}
	if err == nil {
		err = g.open(ctx)
	}
	if err != nil {
		g.stop()
	}

	return err
}

// placed checks that consecutive ranks fill one node after the other and sets g.names. The placement
// determines which nodes a communicator with fewer ranks spans.
func (g *group) placed() error {
	g.names = nil
	for i, m := range g.members {
		first := g.members[i-i%g.perNode]
		if m.node != first.node {
			return fmt.Errorf(
				"rank %d is on %s and rank %d on %s, but %d ranks belong on each node: let the launcher fill the nodes one after "+
					"the other",
				first.rank,
				first.node,
				i,
				m.node,
				g.perNode,
			)
		}
		if i%g.perNode == 0 {
			if slices.Contains(g.names, m.node) {
				return fmt.Errorf("the ranks are on fewer than %d nodes: %s has more than %d of them", g.nodes, m.node,
					g.perNode)
			}
			g.names = append(g.names, m.node)
		}
	}

	return nil
}

// open opens the device of each rank. It returns an error if a rank fails, or if GPUs or NCCL versions
// differ between ranks.
func (g *group) open(ctx context.Context) error {
	for _, m := range g.members {
		go m.read(g.replies, g.running.why)
	}

	reports, failed, _ := g.exchange(ctx, g.members, g.startup, func(m *member) task {
		t := task{Kind: taskOpen, Rank: m.rank, Apart: g.nodes > 1, Device: cuda.Device(m.local)}
		if g.nodes == 1 {
			t.Device = g.devices[m.rank]
		}
		return t
	})
	if failed != nil {
		return fmt.Errorf("on %s: %w", g.members[failed.Rank].node, failed)
	}

	g.uuids = make([]string, g.ranks)
	for i, r := range reports {
		g.uuids[i] = r.About.UUID
		if a, b := r.About, reports[0].About; a.Device != b.Device || a.NCCL != b.NCCL {
			return fmt.Errorf("rank %d on %s has %s with NCCL %s, and rank 0 on %s %s with %s: give the job nodes of one kind",
				i, g.members[i].node, a.Device, a.NCCL, g.members[0].node, b.Device, b.NCCL)
		}
	}

	if g.nodes > 1 {
		fmt.Fprintf(g.log, "%d ranks on %s\n", g.ranks, strings.Join(g.names, " "))
	}
	return nil
}

// read passes on the replies of a rank until its connection is closed. why returns the reason for the end.
func (m *member) read(replies chan<- outcome, why func(rank int) string) {
	for m.lines.Scan() {
		var r reply
		if err := json.Unmarshal(m.lines.Bytes(), &r); err != nil {
			replies <- outcome{m.rank, report{}, &rankError{m.rank, failDied,
				fmt.Errorf("it sent what is no reply: %.80q", m.lines.Text())}}
			return
		}

		var err *rankError
		if r.How != "" {
			err = &rankError{m.rank, r.How, errors.New(r.Error)}
		}
		replies <- outcome{m.rank, r.Report, err}
	}

	replies <- outcome{m.rank, report{}, &rankError{m.rank, failDied, fmt.Errorf("the connection to it on %s was "+
		"closed: %s", m.node, why(m.rank))}}
}

// exchange sends a task to each member and returns their reports by rank. The error is the cause if
// several ranks fail: the end of a rank before an error, and an error before a timeout. complete is true if all
// ranks have replied.
func (g *group) exchange(ctx context.Context, to []*member, limit time.Duration,
	what func(*member) task) (reports []report, failed *rankError, complete bool) {
	waiting := map[int]bool{}
	for _, m := range to {
		waiting[m.rank] = true
		_ = m.orders.Encode(what(m)) // read reports the end of the connection
	}

	reports = make([]report, g.ranks)
	timer := time.NewTimer(limit + patience)
	defer timer.Stop()

	for len(waiting) > 0 {
		select {
		case o := <-g.replies:
			delete(waiting, o.rank)
			reports[o.rank] = o.report
			switch {
			case o.err == nil:
				continue
			case failed == nil:
				timer.Reset(patience)
				failed = o.err
			case o.err.How == failDied || failed.How == failHang && o.err.How != failHang:
				failed = o.err
			}
			if failed.How == failDied {
				return nil, failed, false
			}

		case <-ctx.Done():
			return nil, &rankError{to[0].rank, failError, context.Cause(ctx)}, false

		case <-timer.C:
			if failed == nil {
				for _, m := range to {
					if waiting[m.rank] {
						failed = &rankError{m.rank, failHang, fmt.Errorf("%w within %v", errHung, limit)}
					}
				}
			}
			return nil, failed, false
		}
	}

	return reports, failed, true
}

// do runs a task on its ranks and returns their reports by rank. If it fails, all ranks are ended, because
// they may be inside a collective. A failed allocation keeps them.
func (g *group) do(ctx context.Context, t task) ([]report, error) {
	if t.Limit == 0 {
		t.Limit = g.limit
	}
	if err := g.start(ctx); err != nil {
		return nil, err
	}

	to := g.members[:t.Ranks]
	if t.Kind == taskID {
		to = to[:1]
	}

	reports, failed, complete := g.exchange(ctx, to, limitOf(t), func(*member) task { return t })
	if failed == nil {
		return reports[:t.Ranks], nil
	}

	if t.Kind != taskReserve || !complete || failed.How == failHang {
		g.stop()
	}
	return nil, failed
}

// join creates the communicator of the given number of ranks if it does not exist yet.
func (g *group) join(ctx context.Context, ranks int) error {
	if g.joined[ranks] && g.running != nil {
		return nil
	}

	reports, err := g.do(ctx, task{Kind: taskID, Ranks: ranks})
	if err != nil {
		return err
	}

	_, err = g.do(ctx, task{Kind: taskJoin, Ranks: ranks, ID: reports[0].ID, Limit: max(g.limit, joinSeconds)})
	if err != nil {
		return fmt.Errorf("joining a communicator of %d: %w", ranks, err)
	}

	g.joined[ranks] = true
	return nil
}

// stop ends all ranks and waits until their processes have ended. Ranks exit when their connection is
// closed, even if a task is running.
func (g *group) stop() {
	for _, m := range g.members {
		if m != nil {
			m.conn.Close()
		}
	}
	if g.running != nil {
		g.running.stop()
	}
	g.members, g.running = nil, nil
}

// nodesOf returns the number of nodes that the first ranks occupy.
func (g *group) nodesOf(ranks int) int { return (ranks + g.perNode - 1) / g.perNode }

// places returns the node names and device UUIDs of a communicator, separated by spaces.
func (g *group) places(ranks int) (nodes, devices string) {
	return strings.Join(g.names[:g.nodesOf(ranks)], " "), strings.Join(g.uuids[:ranks], " ")
}
