package cuda

import (
	"runtime"
	"strings"
	"unsafe"

	"aicplan/cudaops/dl"
)

// NCCLLibrary implements NCCL with the real library.
type NCCLLibrary struct {
	lib *dl.Library
	fn  ncclTable
}

var _ NCCL = (*NCCLLibrary)(nil)

type ncclTable struct {
	version, uniqueID, initRank, asyncError, errorString       uintptr
	groupStart, groupEnd                                       uintptr
	allReduce, allGather, reduceScatter, broadcast, send, recv uintptr

	// Optional symbols, 0 if missing.
	initScalable, lastError, allToAll, commCount uintptr
}

// OpenNCCL opens the library without using a device. The error is a *dl.NotFoundError if it is not installed.
func OpenNCCL() (*NCCLLibrary, error) {
	lib, err := dl.Open(NCCLSpec)
	if err != nil {
		return nil, err
	}

	l := &NCCLLibrary{lib: lib}
	f := &l.fn
	err = lib.Bind(map[string]*uintptr{
		"ncclGetVersion": &f.version, "ncclGetUniqueId": &f.uniqueID, "ncclCommInitRank": &f.initRank,
		"ncclCommGetAsyncError": &f.asyncError,
		"ncclGetErrorString":    &f.errorString, "ncclGroupStart": &f.groupStart, "ncclGroupEnd": &f.groupEnd,
		"ncclAllReduce": &f.allReduce, "ncclAllGather": &f.allGather, "ncclReduceScatter": &f.reduceScatter,
		"ncclBroadcast": &f.broadcast, "ncclSend": &f.send, "ncclRecv": &f.recv, "ncclCommCount": &f.commCount,
	})

	if err != nil {
		return nil, err
	}

	for name, at := range map[string]*uintptr{
		"ncclCommInitRankScalable": &f.initScalable, "ncclGetLastError": &f.lastError, "ncclAlltoAll": &f.allToAll,
	} {
		if lib.Has(name) {
			if *at, err = lib.Func(name); err != nil {
				return nil, err
			}
		}
	}

	return l, nil
}

// Path returns the file of the library.
func (l *NCCLLibrary) Path() string { return l.lib.Path }

// call calls a function and converts its result to an error.
//
//go:uintptrescapes
func (l *NCCLLibrary) call(name string, fn uintptr, args ...uintptr) error {
	if code := int(int32(dl.Call(fn, args...))); code != NCCLSuccess {
		return l.failure(name, code)
	}
	return nil
}

func (l *NCCLLibrary) failure(call string, code int) *NCCLError {
	e := NewNCCLError(call, code)
	e.Text = dl.GoString(dl.CallPointer(l.fn.errorString, uintptr(code)))
	if l.fn.lastError != 0 {
		if last := strings.TrimSpace(dl.GoString(dl.CallPointer(l.fn.lastError, 0))); last != "" {
			e.Text += ": " + last
		}
	}
	return e
}

// Version implements NCCL.
func (l *NCCLLibrary) Version() (int, error) {
	var v int32
	err := l.call("ncclGetVersion", l.fn.version, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

// UniqueID implements NCCL.
func (l *NCCLLibrary) UniqueID() (UniqueID, error) {
	var id UniqueID
	err := l.call("ncclGetUniqueId", l.fn.uniqueID, uintptr(unsafe.Pointer(&id[0])))
	return id, err
}

// InitRank implements NCCL.
func (l *NCCLLibrary) InitRank(nranks int, id UniqueID, rank int) (Comm, error) {
	var c Comm
	out := uintptr(unsafe.Pointer(&c))
	if l.fn.initScalable != 0 {
		// This variant takes the ids by pointer.
		err := l.call("ncclCommInitRankScalable", l.fn.initScalable, out, uintptr(nranks), uintptr(rank), 1,
			uintptr(unsafe.Pointer(&id[0])), 0)
		return c, err
	}

	if runtime.GOARCH != "amd64" {
		// On this platform, a large struct is passed as a pointer to a copy.
		err := l.call("ncclCommInitRank", l.fn.initRank, out, uintptr(nranks), uintptr(unsafe.Pointer(&id[0])),
			uintptr(rank))
		return c, err
	}

	// On amd64, a large struct is passed on the stack, after the six register arguments, of which this
	// function uses three.
	w := (*[16]uintptr)(unsafe.Pointer(&id))
	err := l.call("ncclCommInitRank", l.fn.initRank, out, uintptr(nranks), uintptr(rank), 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15])

	return c, err
}

// AsyncError implements NCCL.
func (l *NCCLLibrary) AsyncError(c Comm) error {
	var code int32
	if err := l.call("ncclCommGetAsyncError", l.fn.asyncError, uintptr(c), uintptr(unsafe.Pointer(&code))); err != nil {
		return err
	}

	if code == NCCLSuccess || code == NCCLInProgress {
		return nil
	}
	return l.failure("a rank of the communicator", int(code))
}

// GroupStart implements NCCL.
func (l *NCCLLibrary) GroupStart() error { return l.call("ncclGroupStart", l.fn.groupStart) }

// GroupEnd implements NCCL.
func (l *NCCLLibrary) GroupEnd() error { return l.call("ncclGroupEnd", l.fn.groupEnd) }

// AllReduce implements NCCL.
func (l *NCCLLibrary) AllReduce(send, recv Ptr, count int64, t NCCLType, op RedOp, c Comm, s Stream) error {
	return l.call("ncclAllReduce", l.fn.allReduce, uintptr(send), uintptr(recv), uintptr(count), uintptr(t),
		uintptr(op), uintptr(c), uintptr(s))
}

// AllGather implements NCCL.
func (l *NCCLLibrary) AllGather(send, recv Ptr, sendCount int64, t NCCLType, c Comm, s Stream) error {
	return l.call("ncclAllGather", l.fn.allGather, uintptr(send), uintptr(recv), uintptr(sendCount), uintptr(t),
		uintptr(c), uintptr(s))
}

// ReduceScatter implements NCCL.
func (l *NCCLLibrary) ReduceScatter(send, recv Ptr, recvCount int64, t NCCLType, op RedOp, c Comm,
	s Stream) error {
	return l.call("ncclReduceScatter", l.fn.reduceScatter, uintptr(send), uintptr(recv), uintptr(recvCount),
		uintptr(t), uintptr(op), uintptr(c), uintptr(s))
}

// AllToAll implements NCCL.
func (l *NCCLLibrary) AllToAll(send, recv Ptr, count int64, t NCCLType, c Comm, s Stream) error {
	if l.fn.allToAll != 0 {
		return l.call("ncclAlltoAll", l.fn.allToAll, uintptr(send), uintptr(recv), uintptr(count), uintptr(t),
			uintptr(c), uintptr(s))
	}

	var n int32
	if err := l.call("ncclCommCount", l.fn.commCount, uintptr(c), uintptr(unsafe.Pointer(&n))); err != nil {
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
func (l *NCCLLibrary) Broadcast(send, recv Ptr, count int64, t NCCLType, root int, c Comm, s Stream) error {
	return l.call("ncclBroadcast", l.fn.broadcast, uintptr(send), uintptr(recv), uintptr(count), uintptr(t),
		uintptr(root), uintptr(c), uintptr(s))
}

// Send implements NCCL.
func (l *NCCLLibrary) Send(send Ptr, count int64, t NCCLType, peer int, c Comm, s Stream) error {
	return l.call("ncclSend", l.fn.send, uintptr(send), uintptr(count), uintptr(t), uintptr(peer), uintptr(c),
		uintptr(s))
}

// Recv implements NCCL.
func (l *NCCLLibrary) Recv(recv Ptr, count int64, t NCCLType, peer int, c Comm, s Stream) error {
	return l.call("ncclRecv", l.fn.recv, uintptr(recv), uintptr(count), uintptr(t), uintptr(peer), uintptr(c),
		uintptr(s))
}
