// Package nccl is a thin binding of NCCL, which is loaded at run time. Callers use the interface API, which
// the package cudatest implements without a GPU.
//
// NCCL reads its environment variables (NCCL_*) when the first communicator is created, so they must be set
// before. A communicator belongs to one device. Only one thread at a time may use it.
package nccl

import (
	"fmt"

	"aicplan/cudaops/driver"
)

// Comm is the communicator of one rank. The zero value means none.
type Comm uintptr

// UniqueID identifies a new communicator. One rank creates it, and all ranks use it to join.
type UniqueID [128]byte

// DataType is a ncclDataType_t.
type DataType int

// Data types.
const (
	Int8     DataType = 0
	Int32    DataType = 2
	Half     DataType = 6
	BFloat16 DataType = 9
)

// Size returns the number of bytes per element.
func (t DataType) Size() int64 {
	switch t {
	case Int8:
		return 1
	case Half, BFloat16:
		return 2
	case Int32:
		return 4
	}

	panic(fmt.Sprintf("nccl: no size for data type %d", int(t)))
}

// RedOp is a ncclRedOp_t.
type RedOp int

// Sum is the only reduction used here.
const Sum RedOp = 0

// API is the subset of NCCL used by this program. Errors are *Error. Counts are elements, as in the C
// function with the same name.
type API interface {
	// Version returns the library's version as encoded by NCCL: 22809 for 2.28.9.
	Version() (int, error)
	UniqueID() (UniqueID, error)
	// InitRank joins the communicator of nranks ranks. It uses the current device of the calling thread and
	// returns when all ranks have joined.
	InitRank(nranks int, id UniqueID, rank int) (Comm, error)
	// AsyncError returns an asynchronous error of the communicator, or nil.
	AsyncError(Comm) error

	GroupStart() error
	GroupEnd() error

	AllReduce(send, recv driver.Ptr, count int64, t DataType, op RedOp, c Comm, s driver.Stream) error
	AllGather(send, recv driver.Ptr, sendCount int64, t DataType, c Comm, s driver.Stream) error
	ReduceScatter(send, recv driver.Ptr, recvCount int64, t DataType, op RedOp, c Comm, s driver.Stream) error
	// AllToAll sends count elements to every rank, stored consecutively in send. With libraries before
	// 2.28, it uses grouped sends and receives.
	AllToAll(send, recv driver.Ptr, count int64, t DataType, c Comm, s driver.Stream) error
	Broadcast(send, recv driver.Ptr, count int64, t DataType, root int, c Comm, s driver.Stream) error
	Send(send driver.Ptr, count int64, t DataType, peer int, c Comm, s driver.Stream) error
	Recv(recv driver.Ptr, count int64, t DataType, peer int, c Comm, s driver.Stream) error
}

// VersionText formats an NCCL version number: 22809 becomes 2.28.9.
func VersionText(v int) string {
	if v < 10000 {
		// Before 2.9, the minor version had one digit less.
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}
