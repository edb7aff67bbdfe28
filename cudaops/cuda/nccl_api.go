package cuda

import (
	"fmt"
)

// Comm is the communicator of one rank. The zero value means none.
type Comm uintptr

// UniqueID identifies a new communicator. One rank creates it, and all ranks use it to join.
type UniqueID [128]byte

// NCCLType is a ncclDataType_t.
type NCCLType int

// Data types.
const (
	Int8     NCCLType = 0
	Int32    NCCLType = 2
	Half     NCCLType = 6
	BFloat16 NCCLType = 9
)

// ncclMatrix maps data types to those of matrices.
var ncclMatrix = [...]MatrixType{Int8: I8, Int32: I32, Half: F16, BFloat16: BF16}

// Matrix returns the same type of a matrix.
func (t NCCLType) Matrix() MatrixType { return ncclMatrix[t] }

// Size returns the number of bytes per element.
func (t NCCLType) Size() int64 { return t.Matrix().Size() }

// NCCL is the subset of NCCL used by this program. Errors are *Error. Counts are elements, as in the C
// function with the same name.
type NCCL interface {
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

	// AllReduce and ReduceScatter compute sums.
	AllReduce(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error
	AllGather(send, recv Ptr, sendCount int64, t NCCLType, c Comm, s Stream) error
	ReduceScatter(send, recv Ptr, recvCount int64, t NCCLType, c Comm, s Stream) error
	// AllToAll sends count elements to every rank, stored consecutively in send. With libraries before
	// 2.28, it uses grouped sends and receives.
	AllToAll(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error
	// Broadcast sends the data of rank 0.
	Broadcast(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error
	Send(send Ptr, count int64, t NCCLType, peer int, c Comm, s Stream) error
	Recv(recv Ptr, count int64, t NCCLType, peer int, c Comm, s Stream) error
}

// NCCLVersionText formats an NCCL version number: 22809 becomes 2.28.9.
func NCCLVersionText(v int) string {
	if v < 10000 {
		// Before 2.9, the minor version had one digit less.
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return BLASVersionText(v)
}
