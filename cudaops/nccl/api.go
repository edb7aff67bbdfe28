// Package nccl is a thin binding of NCCL, opened at run time. Everything above
// it talks to the API interface, which the package nccltest implements without
// a GPU.
//
// NCCL reads its environment (NCCL_*) when the first communicator is made, so
// variables are set before that. A communicator belongs to one device; its
// calls come from one thread at a time, Abort excepted.
package nccl

import (
	"fmt"

	"aicplan/cudaops/driver"
)

// Comm is one rank's communicator. The zero value means none.
type Comm uintptr

// UniqueID names a communicator before it exists: one rank makes it and all
// ranks join with it.
type UniqueID [128]byte

// DataType is a ncclDataType_t.
type DataType int

// The data types.
const (
	Int8     DataType = 0
	Uint8    DataType = 1
	Int32    DataType = 2
	Uint32   DataType = 3
	Int64    DataType = 4
	Uint64   DataType = 5
	Half     DataType = 6
	Float    DataType = 7
	Double   DataType = 8
	BFloat16 DataType = 9
)

// Size is the number of bytes of one element.
func (t DataType) Size() int64 {
	switch t {
	case Int8, Uint8:
		return 1
	case Half, BFloat16:
		return 2
	case Int32, Uint32, Float:
		return 4
	case Int64, Uint64, Double:
		return 8
	}
	panic(fmt.Sprintf("nccl: no size for data type %d", int(t)))
}

// RedOp is a ncclRedOp_t.
type RedOp int

// The reductions.
const (
	Sum  RedOp = 0
	Prod RedOp = 1
	Max  RedOp = 2
	Min  RedOp = 3
	Avg  RedOp = 4
)

// API is the part of NCCL that this program uses. Errors are *Error. Counts are
// elements, in the sense of the C function of the same name.
type API interface {
	// Version is the library's version as NCCL writes it: 22809 for 2.28.9.
	Version() (int, error)
	UniqueID() (UniqueID, error)
	// InitRank joins the communicator of nranks ranks. It uses the device that
	// is current on the calling thread and returns once every rank has joined.
	InitRank(nranks int, id UniqueID, rank int) (Comm, error)
	// Destroy frees a communicator without work in flight.
	Destroy(Comm) error
	// Abort ends a communicator whatever it is doing: its kernels leave the
	// device and calls in other threads return. It may be called from any thread.
	Abort(Comm) error
	// AsyncError reports an error that happened behind the caller's back: nil
	// while all is well.
	AsyncError(Comm) error

	GroupStart() error
	GroupEnd() error

	AllReduce(send, recv driver.Ptr, count int64, t DataType, op RedOp, c Comm, s driver.Stream) error
	AllGather(send, recv driver.Ptr, sendCount int64, t DataType, c Comm, s driver.Stream) error
	ReduceScatter(send, recv driver.Ptr, recvCount int64, t DataType, op RedOp, c Comm, s driver.Stream) error
	// AllToAll sends count elements to every rank, one after the other in send.
	// Libraries before 2.28 do it by grouped sends and receives.
	AllToAll(send, recv driver.Ptr, count int64, t DataType, c Comm, s driver.Stream) error
	Broadcast(send, recv driver.Ptr, count int64, t DataType, root int, c Comm, s driver.Stream) error
	Send(send driver.Ptr, count int64, t DataType, peer int, c Comm, s driver.Stream) error
	Recv(recv driver.Ptr, count int64, t DataType, peer int, c Comm, s driver.Stream) error
}

// VersionText writes a version number of NCCL as people do: 22809 is 2.28.9.
func VersionText(v int) string {
	if v < 10000 {
		// Before 2.9 the minor version had one digit less.
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}
