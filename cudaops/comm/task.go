package comm

import (
	"errors"
	"fmt"
	"slices"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
)

// Task kinds.
const (
	taskReserve = "reserve" // allocate buffers of Send, Recv and Staging bytes, report their addresses
	taskPeer    = "peer"    // enable access to the memory of the other ranks
	taskID      = "id"      // create a unique id
	taskJoin    = "join"    // join the communicator of Ranks with ID
	taskLeave   = "leave"   // destroy that communicator
	taskAbort   = "abort"   // abort that communicator and wait until the device is idle
	taskVerify  = "verify"  // send the pattern once and check the received data
	taskRecheck = "recheck" // check the receive buffer again
	taskFill    = "fill"    // write the rank's pattern into Bytes bytes and poison the receive buffer
	taskWarm    = "warm"    // N untimed executions
	taskBlock   = "block"   // N executions between barriers, timed by the host's clock
	taskCapture = "capture" // capture Blocks blocks of N executions into a graph
	taskReplay  = "replay"  // replay it Times times, report the time of each replay and block
	taskDrop    = "drop"    // free the graph
	taskCopy    = "copy"    // N copies to the peer, timed by device events
)

// Ways to transfer a message.
const (
	viaNCCL    = ""
	viaOneShot = "one_shot"
	viaTwoShot = "two_shot"
	viaCopy    = "copy"
)

// task is a step that all ranks of a crew run at the same time. It is sent to other processes as JSON.
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
	Times    int           `json:"times,omitempty"` // number of replays, 0 means one
	Ahead    int           `json:"ahead,omitempty"` // untimed launches before each replay
	Send     int64         `json:"send,omitempty"`
	Recv     int64         `json:"recv,omitempty"`
	Staging  int64         `json:"staging,omitempty"`
	ID       []byte        `json:"id,omitempty"`

	// Grid is the number of thread blocks of a peer-memory kernel.
	Grid int `json:"grid,omitempty"`

	// Peers are the places reported by taskReserve, by rank. They are only valid within one process.
	Peers []place `json:"peers,omitempty"`

	// Bytes and Target are the size and the receiving rank of a copy. Only lists the ranks that take part;
	// nil means all.
	Bytes  int64 `json:"bytes,omitempty"`
	Target int   `json:"target,omitempty"`
	Back   int   `json:"back,omitempty"` // target of the copy by Target itself, if it takes part
	Only   []int `json:"only,omitempty"`

	// Fault is the fault to inject on the last rank.
	Fault string `json:"fault,omitempty"`

	// Limit is the time limit of the rank in seconds.
	Limit float64 `json:"limit"`
}

func (t task) takesPart(rank int) bool {
	return rank < t.Ranks && (t.Only == nil || slices.Contains(t.Only, rank))
}

// faulty reports whether the fault is injected on this rank, which must be the last one.
func (t task) faulty(rank int, fault string) bool { return t.Fault == fault && rank == t.Ranks-1 }

// place contains the addresses of a rank's buffers.
type place struct {
	Device  driver.Device `json:"device"`
	Context uint64        `json:"context"`
	Send    driver.Ptr    `json:"send"`
	Recv    driver.Ptr    `json:"recv"`
	Staging driver.Ptr    `json:"staging"`
	Signals driver.Ptr    `json:"signals"`
}

// report is the result of one task on one rank.
type report struct {
	Seconds float64   `json:"seconds,omitempty"` // time of a block
	Samples []float64 `json:"samples,omitempty"` // seconds per execution, by replay and block
	Checked int64     `json:"checked,omitempty"` // compared elements
	Wrong   int64     `json:"wrong,omitempty"`   // wrong elements
	First   int64     `json:"first,omitempty"`   // lowest index of a wrong element
	Place   place     `json:"place"`
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

// errStuck is returned if a rank could not be released. The process that contains it must end.
var errStuck = errors.New("a rank could not be released")

// wrongError is returned if a receive buffer does not have the expected content.
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
