package comm

import (
	"fmt"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/worker"
)

// Task kinds.
const (
	taskOpen    = "open"    // open the libraries and the device
	taskReserve = "reserve" // allocate buffers of Send and Recv bytes
	taskID      = "id"      // create a unique id, on rank 0 only
	taskJoin    = "join"    // join the communicator of Ranks with ID
	taskVerify  = "verify"  // send the pattern once and check the received data
	taskRecheck = "recheck" // check the receive buffer again
	taskWarm    = "warm"    // N untimed executions
	taskBlock   = "block"   // N executions after a synchronization, timed by the host's clock
	taskCapture = "capture" // capture Blocks blocks of N executions into a graph
	taskReplay  = "replay"  // replay it Times times, report the time of each replay and block
	taskDrop    = "drop"    // free the graph
)

// task is a step that the first Ranks ranks of a group run at the same time.
type task struct {
	Kind     string        `json:"kind"`
	Op       string        `json:"op,omitempty"`
	Type     cuda.NCCLType `json:"type,omitempty"`
	Ranks    int           `json:"ranks,omitempty"`
	Elements int64         `json:"elements,omitempty"`
	N        int           `json:"n,omitempty"`
	Blocks   int           `json:"blocks,omitempty"`
	Times    int           `json:"times,omitempty"` // number of replays, 0 means one
	Ahead    int           `json:"ahead,omitempty"` // untimed launches before each replay
	Send     int64         `json:"send,omitempty"`
	Recv     int64         `json:"recv,omitempty"`
	ID       []byte        `json:"id,omitempty"`

	// Rank and Device are for taskOpen. Apart is true if the ranks are on several nodes. Device is then the
	// number of the process on its node.
	Rank   int         `json:"rank,omitempty"`
	Device cuda.Device `json:"device,omitempty"`
	Apart  bool        `json:"apart,omitempty"`

	// Limit is the time limit of the rank in seconds.
	Limit float64 `json:"limit"`
}

// report is the result of one task on one rank.
type report struct {
	Seconds float64   `json:"seconds,omitempty"` // time of a block
	Samples []float64 `json:"samples,omitempty"` // seconds per execution, by replay and block
	Checked int64     `json:"checked,omitempty"` // compared elements
	Wrong   int64     `json:"wrong,omitempty"`   // wrong elements
	First   int64     `json:"first,omitempty"`   // lowest index of a wrong element
	ID      []byte    `json:"id,omitempty"`
	About   *about    `json:"about,omitempty"` // response to opening the device
}

// about describes the device and NCCL version of a rank's process.
type about struct {
	Device string `json:"device"`
	UUID   string `json:"uuid"`
	NCCL   string `json:"nccl"`
}

// Kinds of failures of a rank.
const (
	failError  = "error"  // a call failed
	failHang   = "hang"   // not finished within the limit
	failDied   = "died"   // the rank has ended
	failMemory = "memory" // not enough device memory
)

// rankError is the failure of one rank.
type rankError struct {
	Rank int
	How  string
	Err  error
}

func (e *rankError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

func (e *rankError) Unwrap() error { return e.Err }

// wrongResult returns the failure of a rank whose receive buffer does not have the expected content.
func (r report) wrongResult(rank int) error {
	return &worker.Failure{Class: worker.ClassFrameworkBug, Exception: "WrongResult", Message: fmt.Sprintf(
		"wrong result on rank %d: %d of %d elements differ from what was sent, the first at index %d", rank, r.Wrong,
		r.Checked, r.First)}
}
