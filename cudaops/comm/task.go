package comm

import (
	"errors"
	"fmt"
	"slices"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
)

// The kinds of tasks.
const (
	taskReserve = "reserve" // have buffers of Send, Recv and Staging bytes; report where they are
	taskPeer    = "peer"    // allow access to the memory of the other ranks
	taskID      = "id"      // make a unique id
	taskJoin    = "join"    // join the communicator of Ranks with ID
	taskLeave   = "leave"   // destroy that communicator
	taskAbort   = "abort"   // leave it by force, and wait until the device is idle
	taskVerify  = "verify"  // send the pattern once and check what arrives
	taskRecheck = "recheck" // check the receive buffer once more
	taskFill    = "fill"    // write the pattern of the rank into Bytes bytes, and poison the receive buffer
	taskWarm    = "warm"    // N executions, not timed
	taskBlock   = "block"   // N executions between barriers, timed by the host's clock
	taskCapture = "capture" // capture Blocks blocks of N executions into a graph
	taskReplay  = "replay"  // replay it Times times: one time per replay and block
	taskDrop    = "drop"    // free the graph
	taskCopy    = "copy"    // N copies to the peer, timed by events of the device
)

// The ways in which a message moves.
const (
	viaNCCL    = ""
	viaOneShot = "one_shot"
	viaTwoShot = "two_shot"
	viaCopy    = "copy"
)

// task is one thing that all ranks of a crew do at the same time. It travels to
// ranks in other processes as JSON.
type task struct {
	Kind     string        `json:"kind"`
	Via      string        `json:"via,omitempty"`
	Op       string        `json:"op,omitempty"`
	Type     nccl.DataType `json:"type,omitempty"`
	Ranks    int           `json:"ranks,omitempty"`
	Elements int64         `json:"elements,omitempty"`
	InPlace  bool          `json:"in_place,omitempty"`
	N        int           `json:"n,omitempty"`
	Blocks   int           `json:"blocks,omitempty"`
	Times    int           `json:"times,omitempty"` // replays; 0 means one
	Ahead    int           `json:"ahead,omitempty"` // launches of the graph ahead of each replay, that are not timed
	Send     int64         `json:"send,omitempty"`
	Recv     int64         `json:"recv,omitempty"`
	Staging  int64         `json:"staging,omitempty"`
	ID       []byte        `json:"id,omitempty"`
	// Grid is the number of thread blocks of a peer-memory kernel.
	Grid int `json:"grid,omitempty"`
	// Peers are the places that taskReserve reported, by rank; they mean
	// something inside one process only.
	Peers []place `json:"peers,omitempty"`
	// Bytes and Target are the size and the receiving rank of a copy, and Only
	// the ranks that take part in the task (nil: all).
	Bytes  int64 `json:"bytes,omitempty"`
	Target int   `json:"target,omitempty"`
	Back   int   `json:"back,omitempty"` // where the target's own copy goes when it takes part
	Only   []int `json:"only,omitempty"`
	// Fault is what goes wrong on purpose on the last rank.
	Fault string `json:"fault,omitempty"`
	// Limit is the time after which the rank gives up, in seconds.
	Limit float64 `json:"limit"`
}

func (t task) takesPart(rank int) bool {
	return rank < t.Ranks && (t.Only == nil || slices.Contains(t.Only, rank))
}

// faulty says whether the fault happens on this rank: on the last one.
func (t task) faulty(rank int, fault string) bool { return t.Fault == fault && rank == t.Ranks-1 }

// place is where a rank's memory is.
type place struct {
	Device  driver.Device `json:"device"`
	Context uint64        `json:"context"`
	Send    driver.Ptr    `json:"send"`
	Recv    driver.Ptr    `json:"recv"`
	Staging driver.Ptr    `json:"staging"`
	Signals driver.Ptr    `json:"signals"`
}

// report is what one rank says about one task.
type report struct {
	Seconds float64   `json:"seconds,omitempty"` // of a block
	Samples []float64 `json:"samples,omitempty"` // seconds per execution, by replay and block of a graph
	Checked int64     `json:"checked,omitempty"` // elements compared
	Wrong   int64     `json:"wrong,omitempty"`   // of them wrong
	First   int64     `json:"first,omitempty"`   // the lowest index of a wrong one
	Place   place     `json:"place"`
	ID      []byte    `json:"id,omitempty"`
	About   *about    `json:"about,omitempty"` // when it has opened its device
}

// about is what a rank's process has.
type about struct {
	Device string `json:"device"`
	UUID   string `json:"uuid"`
	NCCL   string `json:"nccl"`
}

// How a rank fails.
const (
	failError  = "error"  // a call failed
	failHang   = "hang"   // not done within the limit
	failDied   = "died"   // the rank is gone
	failPeer   = "peer"   // released because another rank failed
	failSticky = "sticky" // the device's context is lost
)

// rankError is the failure of one rank.
type rankError struct {
	Rank int
	How  string
	Err  error
}

func (e *rankError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

func (e *rankError) Unwrap() error { return e.Err }

// errStuck says that a rank could not be released: the process holding it must
// end.
var errStuck = errors.New("a rank could not be released")

// wrongError says that a receive buffer does not hold what it must.
type wrongError struct {
	Rank           int
	Wrong, Checked int64
	First          int64
	InPlace        bool
}

func (e *wrongError) Error() string {
	form := "out of place"
	if e.InPlace {
		form = "in place"
	}
	return fmt.Sprintf("wrong result %s on rank %d: %d of %d elements differ from what was sent, the first at index %d",
		form, e.Rank, e.Wrong, e.Checked, e.First)
}
