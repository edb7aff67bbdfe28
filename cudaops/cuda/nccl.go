package cuda

import (
	"runtime"
	"strings"
	"unsafe"

	"aicplan/cudaops/dl"
)

// NCCLLibrary implements NCCL with the real library.
type NCCLLibrary struct {
	library
	ncclTable

	// Optional symbols, 0 if missing.
	ncclCommInitRankScalable, ncclGetLastError, ncclAlltoAll dl.Symbol
}

type ncclTable struct {
	ncclGetVersion, ncclGetUniqueId, ncclCommInitRank         dl.Symbol
	ncclCommGetAsyncError, ncclGetErrorString, ncclGroupStart dl.Symbol
	ncclGroupEnd, ncclAllReduce, ncclAllGather                dl.Symbol
	ncclReduceScatter, ncclBroadcast, ncclSend                dl.Symbol
	ncclRecv, ncclCommCount                                   dl.Symbol
}

// OpenNCCL opens the library without using a device. The error is a *dl.NotFoundError if it is not installed.
func OpenNCCL() (*NCCLLibrary, error) {
	l := new(NCCLLibrary)
	if err := l.open(NCCLSpec, &l.ncclTable); err != nil {
		return nil, err
	}

	// Older libraries lack these.
	l.ncclCommInitRankScalable, _ = l.lib.Symbol("ncclCommInitRankScalable")
	l.ncclGetLastError, _ = l.lib.Symbol("ncclGetLastError")
	l.ncclAlltoAll, _ = l.lib.Symbol("ncclAlltoAll")
	return l, nil
}

// call calls a function and converts its result to an error.
//
//go:uintptrescapes
func (l *NCCLLibrary) call(f dl.Symbol, args ...uintptr) error {
	if code := int(int32(dl.Call(f.At, args...))); code != 0 {
		return l.failure(f.Name, code)
	}
	return nil
}

func (l *NCCLLibrary) failure(call string, code int) error {
	e := &CallError{Call: call, Code: code, Name: dl.GoString(dl.CallPointer(l.ncclGetErrorString.At, uintptr(code)))}
	if l.ncclGetLastError.At != 0 {
		e.Text = strings.TrimSpace(dl.GoString(dl.CallPointer(l.ncclGetLastError.At, 0)))
	}
	return e
}

// Version implements NCCL.
func (l *NCCLLibrary) Version() (int, error) {
	var v int32
	err := l.call(l.ncclGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

// UniqueID implements NCCL.
func (l *NCCLLibrary) UniqueID() (UniqueID, error) {
	var id UniqueID
	err := l.call(l.ncclGetUniqueId, uintptr(unsafe.Pointer(&id[0])))
	return id, err
}

// InitRank implements NCCL.
func (l *NCCLLibrary) InitRank(nranks int, id UniqueID, rank int) (Comm, error) {
	var c Comm
	out := uintptr(unsafe.Pointer(&c))
	if l.ncclCommInitRankScalable.At != 0 {
		// This variant takes the ids by pointer.
		err := l.call(l.ncclCommInitRankScalable, out, uintptr(nranks), uintptr(rank), 1,
			uintptr(unsafe.Pointer(&id[0])), 0)
		return c, err
	}

	if runtime.GOARCH != "amd64" {
		// On this platform, a large struct is passed as a pointer to a copy.
		err := l.call(l.ncclCommInitRank, out, uintptr(nranks), uintptr(unsafe.Pointer(&id[0])),
			uintptr(rank))
		return c, err
	}

	// On amd64, a large struct is passed on the stack, after the six register arguments, of which this
	// function uses three.
	w := (*[16]uintptr)(unsafe.Pointer(&id))
	err := l.call(l.ncclCommInitRank, out, uintptr(nranks), uintptr(rank), 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15])

	return c, err
}

// AsyncError implements NCCL.
func (l *NCCLLibrary) AsyncError(c Comm) error {
	const inProgress = 7
	var code int32
	if err := l.call(l.ncclCommGetAsyncError, uintptr(c), uintptr(unsafe.Pointer(&code))); err != nil {
		return err
	}

	if code == 0 || code == inProgress {
		return nil
	}
	return l.failure("a rank of the communicator", int(code))
}

// GroupStart implements NCCL.
func (l *NCCLLibrary) GroupStart() error { return l.call(l.ncclGroupStart) }

// GroupEnd implements NCCL.
func (l *NCCLLibrary) GroupEnd() error { return l.call(l.ncclGroupEnd) }

const (
	sum       = 0 // ncclSum
	firstRank = 0 // the root of a broadcast
)

// AllReduce implements NCCL.
func (l *NCCLLibrary) AllReduce(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error {
	return l.call(l.ncclAllReduce, uintptr(send), uintptr(recv), uintptr(count), uintptr(t), sum, uintptr(c), uintptr(s))
}

// AllGather implements NCCL.
func (l *NCCLLibrary) AllGather(send, recv Ptr, sendCount int64, t NCCLType, c Comm, s Stream) error {
	return l.call(l.ncclAllGather, uintptr(send), uintptr(recv), uintptr(sendCount), uintptr(t), uintptr(c), uintptr(s))
}

// ReduceScatter implements NCCL.
func (l *NCCLLibrary) ReduceScatter(send, recv Ptr, recvCount int64, t NCCLType, c Comm, s Stream) error {
	return l.call(l.ncclReduceScatter, uintptr(send), uintptr(recv), uintptr(recvCount), uintptr(t), sum, uintptr(c),
		uintptr(s))
}

// AllToAll implements NCCL.
func (l *NCCLLibrary) AllToAll(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error {
	if l.ncclAlltoAll.At != 0 {
		return l.call(l.ncclAlltoAll, uintptr(send), uintptr(recv), uintptr(count), uintptr(t),
			uintptr(c), uintptr(s))
	}

	var n int32
	if err := l.call(l.ncclCommCount, uintptr(c), uintptr(unsafe.Pointer(&n))); err != nil {
		return err
	}

	if err := l.GroupStart(); err != nil {
		return err
	}

	step := Ptr(count * t.Size())
	var failed error
	for r := range int(n) {
		at := Ptr(r) * step
		if failed = l.Send(send+at, count, t, r, c, s); failed != nil {
			break
		}
		if failed = l.Recv(recv+at, count, t, r, c, s); failed != nil {
			break
		}
	}

	// Always close the group, because an open group absorbs all later calls.
	if err := l.GroupEnd(); failed == nil {
		failed = err
	}

	return failed
}

// Broadcast implements NCCL.
func (l *NCCLLibrary) Broadcast(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error {
	return l.call(l.ncclBroadcast, uintptr(send), uintptr(recv), uintptr(count), uintptr(t), firstRank, uintptr(c),
		uintptr(s))
}

// Send implements NCCL.
func (l *NCCLLibrary) Send(send Ptr, count int64, t NCCLType, peer int, c Comm, s Stream) error {
	return l.call(l.ncclSend, uintptr(send), uintptr(count), uintptr(t), uintptr(peer), uintptr(c),
		uintptr(s))
}

// Recv implements NCCL.
func (l *NCCLLibrary) Recv(recv Ptr, count int64, t NCCLType, peer int, c Comm, s Stream) error {
	return l.call(l.ncclRecv, uintptr(recv), uintptr(count), uintptr(t), uintptr(peer), uintptr(c),
		uintptr(s))
}
