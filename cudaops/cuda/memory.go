package cuda

import (
	"fmt"
	"unsafe"
)

const (
	hostPortable = 1 // page-locked for every context
	hostMapped   = 2 // visible to the device
)

func (l *DriverLibrary) Alloc(bytes int64) (Ptr, error) {
	var p Ptr
	if bytes <= 0 {
		return 0, fmt.Errorf("cuMemAlloc of %d bytes: %w", bytes, NewDriverError("cuMemAlloc", CodeInvalidValue))
	}
	err := l.call("cuMemAlloc", l.fn.alloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes))
	return p, err
}

func (l *DriverLibrary) Free(p Ptr) error {
	return l.call("cuMemFree", l.fn.free, uintptr(p))
}

func (l *DriverLibrary) MemInfo() (free, total int64, err error) {
	var f, t uint64
	err = l.call("cuMemGetInfo", l.fn.memInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (l *DriverLibrary) HostAlloc(bytes int) (HostMemory, error) {
	var at unsafe.Pointer
	if err := l.call("cuMemHostAlloc", l.fn.hostAlloc, uintptr(unsafe.Pointer(&at)), uintptr(bytes),
		hostPortable|hostMapped); err != nil {
		return HostMemory{}, err
	}

	h := HostMemory{Bytes: unsafe.Slice((*byte)(at), bytes)}
	if err := l.call("cuMemHostGetDevicePointer", l.fn.hostPointer, uintptr(unsafe.Pointer(&h.Device)), uintptr(at),
		0); err != nil {
		return HostMemory{}, err
	}
	return h, nil
}

func (l *DriverLibrary) Memset8(p Ptr, v byte, bytes int64, s Stream) error {
	return l.call("cuMemsetD8Async", l.fn.memset8, uintptr(p), uintptr(v), uintptr(bytes), uintptr(s))
}

func (l *DriverLibrary) Memset32(p Ptr, v uint32, words int64, s Stream) error {
	return l.call("cuMemsetD32Async", l.fn.memset32, uintptr(p), uintptr(v), uintptr(words), uintptr(s))
}

func (l *DriverLibrary) CopyDtoH(b []byte, src Ptr) error {
	if len(b) == 0 {
		return nil
	}
	return l.call("cuMemcpyDtoH", l.fn.copyDtoH, uintptr(unsafe.Pointer(&b[0])), uintptr(src), uintptr(len(b)))
}

func (l *DriverLibrary) CopyPeer(dst Ptr, dstCtx Context, src Ptr, srcCtx Context, bytes int64, s Stream) error {
	return l.call("cuMemcpyPeerAsync", l.fn.copyPeer, uintptr(dst), uintptr(dstCtx), uintptr(src), uintptr(srcCtx),
		uintptr(bytes), uintptr(s))
}
