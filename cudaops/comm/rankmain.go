package comm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"aicplan/cudaops/cuda"
)

// RankVerb is the hidden command that runs RankMain.
const RankVerb = "worker-rank"

// order is a command to a rank's process, sent as one line of JSON. The first one opens the device.
type order struct {
	Open *opening `json:"open,omitempty"`
	Task *task    `json:"task,omitempty"`
}

type opening struct {
	Rank   int         `json:"rank"`
	Device cuda.Device `json:"device"`
	// Apart is true if the ranks are on several nodes. Device is then the number of the process on its
	// node.
	Apart bool `json:"apart,omitempty"`
}

// reply is the response to each order.
type reply struct {
	Report report `json:"report"`
	How    string `json:"how,omitempty"` // set if the task failed
	Error  string `json:"error,omitempty"`
}

// maxLine limits the length of a message in bytes.
const maxLine = 1 << 20

// RankMain runs a rank: it connects to the worker that started this process, reads orders and writes replies
// until the connection is closed. It returns the exit status of the process.
func RankMain() int {
	conn, err := callWorker()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		return 1
	}

	prepareEnv()
	quietMemory()
	gone := func() { os.Exit(0) } // the rank may be inside a call that never returns
	if err := serveRank(OpenNode, conn, conn, gone); err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		return 1
	}

	return 0
}

// serveRank processes the orders of in and writes replies to out. It calls gone at the end of in.
func serveRank(open func() (*Node, error), in io.Reader, out io.Writer, gone func()) error {
	runtime.LockOSThread() // the device's context is current on this thread
	defer runtime.UnlockOSThread()
	replies := json.NewEncoder(out)
	orders := make(chan order, 1)
	var current atomic.Pointer[rank]

	go func() {
		defer gone()
		defer close(orders)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			var o order
			if json.Unmarshal(lines.Bytes(), &o) != nil {
				break
			}
			orders <- o
		}
		if r := current.Load(); r != nil {
			r.stop.Store(true)
		}
	}()

	first := <-orders
	if first.Open == nil {
		return errors.New("the first order does not open a device")
	}

	r, what, err := openRank(open, *first.Open)
	if err != nil {
		return errors.Join(err, replies.Encode(reply{How: failError, Error: err.Error()}))
	}

	current.Store(r)
	if err := replies.Encode(reply{Report: report{About: what}}); err != nil {
		return err
	}

	for o := range orders {
		if o.Task == nil {
			return errors.New("an order without a task")
		}
		rep, failed := r.do(*o.Task)
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
func openRank(open func() (*Node, error), be opening) (*rank, *about, error) {
	node, err := open()
	if err != nil {
		return nil, nil, err
	}

	if be.Apart {
		if be.Device, err = localDevice(node.Driver, int(be.Device)); err != nil {
			return nil, nil, err
		}
	}

	r := &rank{node: node, no: be.Rank, device: be.Device}
	if err := r.open(); err != nil {
		return nil, nil, err
	}

	info, err := node.Driver.Info(be.Device)
	if err != nil {
		return nil, nil, err
	}

	r.free, r.core = coreFor(r.no, info.PCI)

	v, err := node.NCCL.Version()
	if err != nil {
		return nil, nil, err
	}

	return r, &about{Device: info.Name, UUID: info.UUID, NCCL: cuda.NCCLVersionText(v)}, nil
}

// localDevice returns the device of a process by its number on the node. A launcher may show a process all
// GPUs of the node, or only one.
func localDevice(d cuda.Driver, local int) (cuda.Device, error) {
	count, err := d.Count()
	switch {
	case err != nil:
		return 0, err
	case local < count:
		return cuda.Device(local), nil
	case count == 1:
		return 0, nil
	}
	return 0, fmt.Errorf("process %d of this node has no GPU: the driver shows %d; gpus_per_node of the executor and of the runtime must agree", local, count)
}
