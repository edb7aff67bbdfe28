package comm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
)

// RankVerb is the hidden command that runs RankMain.
const RankVerb = "worker-rank"

// order is a command to a rank's process, sent as one line of JSON.
type order struct {
	Open   *opening `json:"open,omitempty"` // open the device; must be the first order
	Task   *task    `json:"task,omitempty"`
	Cancel bool     `json:"cancel,omitempty"`
	Rescue int      `json:"rescue,omitempty"` // abort the communicator with this number of ranks
}

type opening struct {
	Rank   int           `json:"rank"`
	Device driver.Device `json:"device"`
	// Apart is true if the ranks are on several nodes. Device is then the number of the process on its
	// node.
	Apart bool `json:"apart,omitempty"`
}

// reply is the response to the opening order and to each task.
type reply struct {
	Report report `json:"report"`
	How    string `json:"how,omitempty"` // set if the task failed
	Error  string `json:"error,omitempty"`
}

// maxReply limits the length of a line in bytes, in both directions.
const maxReply = 1 << 20

// RankMain runs a rank in a separate process. It reads orders from file descriptor 3 and writes replies to
// file descriptor 4 until 3 is closed. If the rank was started on several nodes by a launcher, it connects
// to the worker by TCP instead. It returns the exit status of the process.
func RankMain() int {
	var in io.Reader = os.NewFile(3, "orders")
	var out io.Writer = os.NewFile(4, "replies")
	conn, err := callWorker()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		return 1
	}

	if conn != nil {
		in, out = conn, conn
	}

	prepareEnv()
	quietMemory()
	die := func() {
		// Simulate a crash of the driver or the OOM killer.
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}

	gone := func() { os.Exit(0) } // the rank may be inside a call that never returns
	if err := serveRank(OpenNode, in, out, die, gone); err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		return 1
	}

	return 0
}

// serveRank processes the orders of in and writes replies to out. It calls gone at the end of in, and die
// for an injected fault.
func serveRank(open func() (*Node, error), in io.Reader, out io.Writer, die, gone func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	replies := json.NewEncoder(out)
	tasks := make(chan task, 1)
	first := make(chan opening, 1)
	var mu sync.Mutex
	var r *rank
	current := func() *rank {
		mu.Lock()
		defer mu.Unlock()
		return r
	}

	go func() {
		defer gone()
		defer close(tasks)
		opened := false

		for lines := newLines(in); lines.Scan(); {
			var o order
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				return
			}

			switch {
			case o.Open != nil && !opened:
				opened = true
				first <- *o.Open

			case o.Task != nil:
				if r := current(); r != nil {
					r.arm()
				}
				tasks <- *o.Task

			case o.Cancel:
				if r := current(); r != nil {
					r.cancel()
				}

			case o.Rescue > 0:
				if r := current(); r != nil {
					// The task in flight reports the outcome.
					go func() { _ = r.rescue(o.Rescue) }()
				}
			}
		}
	}()

	var be opening
	ok := false
	select {
	case be = <-first:
		ok = true
	case <-tasks:
	}

	if !ok {
		return errors.New("no order to be a rank: ranks are started by a worker, not by hand")
	}

	fresh, what, err := openRank(open, be, die)
	if err != nil {
		return errors.Join(err, replies.Encode(reply{How: failError, Error: err.Error()}))
	}

	mu.Lock()
	r = fresh
	mu.Unlock()

	if err := replies.Encode(reply{Report: report{About: what}}); err != nil {
		return err
	}

	for t := range tasks {
		rep, failed := r.do(t)
		answer := reply{Report: rep}
		if failed != nil {
			answer.How, answer.Error = failed.How, failed.Err.Error()
		}
		if err := replies.Encode(answer); err != nil {
			return err
		}
	}

	return nil
}

// openRank opens the libraries and the device of a rank.
func openRank(open func() (*Node, error), be opening, die func()) (*rank, *about, error) {
	node, err := open()
	if err != nil {
		return nil, nil, err
	}

	if be.Apart {
		if be.Device, err = localDevice(node.Driver, int(be.Device)); err != nil {
			return nil, nil, err
		}
	}

	r := &rank{node: node, no: be.Rank, device: be.Device, die: die, pin: true, apart: be.Apart}
	if err := r.open(); err != nil {
		return nil, nil, err
	}

	info, err := node.Driver.Info(be.Device)
	if err != nil {
		return nil, nil, err
	}

	v, err := node.NCCL.Version()
	if err != nil {
		return nil, nil, err
	}

	return r, &about{Device: info.Name, UUID: info.UUID, NCCL: nccl.VersionText(v)}, nil
}

func newLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxReply)
	return s
}
