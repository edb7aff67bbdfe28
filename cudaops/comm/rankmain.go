package comm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"aicplan/cudaops/cuda"
)

// RankVerb is the hidden command that runs RankMain.
const RankVerb = "worker-rank"

// reply is the response to each task.
type reply struct {
	Report report `json:"report"`
	How    string `json:"how,omitempty"` // set if the task failed
	Error  string `json:"error,omitempty"`
}

// maxLine limits the length of a message in bytes.
const maxLine = 1 << 20

// RankMain runs a rank: it connects to the worker that started this process, reads tasks and writes replies
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

// serveRank runs the tasks of in, one line of JSON each, and writes replies to out. The first task opens the device. It
// calls gone at the end of in.
func serveRank(open func() (*Node, error), in io.Reader, out io.Writer, gone func()) error {
	runtime.LockOSThread() // the device's context is current on this thread
	defer runtime.UnlockOSThread()
	replies := json.NewEncoder(out)
	tasks := make(chan task, 1)
	r := &rank{libraries: open}

	go func() {
		defer gone()
		defer close(tasks)
		for d := json.NewDecoder(in); ; {
			var t task
			if d.Decode(&t) != nil {
				break
			}
			tasks <- t
		}
		r.stop.Store(true)
	}()

	for t := range tasks {
		rep, failed := r.do(t)
		answer := reply{Report: rep}
		if failed != nil {
			answer.How, answer.Error = failed.How, failed.Err.Error()
		}
		err := replies.Encode(answer)
		if t.Kind == taskOpen && failed != nil {
			err = errors.Join(failed.Err, err)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// start opens the libraries and the device of a rank.
func (r *rank) start(t task) (rep report, err error) {
	r.no, r.device = t.Rank, t.Device
	if r.node, err = r.libraries(); err != nil {
		return rep, err
	}

	if t.Apart {
		if r.device, err = localDevice(r.node.Driver, int(t.Device)); err != nil {
			return rep, err
		}
	}

	if err := r.open(); err != nil {
		return rep, err
	}

	info, err := r.node.Driver.Info(r.device)
	if err != nil {
		return rep, err
	}

	r.free, r.core = coreFor(r.no, info.PCI)
	v, err := r.node.NCCL.Version()
	return report{About: &about{Device: info.Name, UUID: info.UUID, NCCL: cuda.NCCLVersionText(v)}}, err
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
	return 0, fmt.Errorf(
		"process %d of this node has no GPU: the driver shows %d; gpus_per_node of the executor and of the runtime must "+
			"agree",
		local,
		count,
	)
}
