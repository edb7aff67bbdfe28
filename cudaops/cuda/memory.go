package cuda

import "unsafe"

const (
	hostPortable = 1 // page-locked for every context
	hostMapped   = 2 // visible to the device
)

func (l *DriverLibrary) Alloc(bytes int64) (Ptr, error) {
	var p Ptr
	err := l.call(l.cuMemAlloc_v2, uintptr(unsafe.Pointer(&p)), uintptr(bytes))
	return p, err
}

func (l *DriverLibrary) Free(p Ptr) error {
	return l.call(l.cuMemFree_v2, uintptr(p))
}

func (l *DriverLibrary) MemInfo() (free, total int64, err error) {
	var f, t uint64
	err = l.call(l.cuMemGetInfo_v2, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (l *DriverLibrary) HostAlloc(bytes int) (HostMemory, error) {
	var at unsafe.Pointer
	if err := l.call(l.cuMemHostAlloc, uintptr(unsafe.Pointer(&at)), uintptr(bytes),
		hostPortable|hostMapped); err != nil {
		return HostMemory{}, err
	}

	h := HostMemory{Bytes: unsafe.Slice((*byte)(at), bytes)}
	if err := l.call(l.cuMemHostGetDevicePointer_v2, uintptr(unsafe.Pointer(&h.Device)), uintptr(at),
		0); err != nil {
		return HostMemory{}, err
	}
	return h, nil
}

func (l *DriverLibrary) Memset8(p Ptr, v byte, bytes int64, s Stream) error {
	return l.call(l.cuMemsetD8Async, uintptr(p), uintptr(v), uintptr(bytes), uintptr(s))
}

func (l *DriverLibrary) Memset32(p Ptr, v uint32, words int64, s Stream) error {
	return l.call(l.cuMemsetD32Async, uintptr(p), uintptr(v), uintptr(words), uintptr(s))
}

func (l *DriverLibrary) CopyDtoH(b []byte, src Ptr) error {
	if len(b) == 0 {
		return nil
	}
	return l.call(l.cuMemcpyDtoH_v2, uintptr(unsafe.Pointer(&b[0])), uintptr(src), uintptr(len(b)))
}

func (l *DriverLibrary) CopyPeer(dst Ptr, dstCtx Context, src Ptr, srcCtx Context, bytes int64, s Stream) error {
	return l.call(l.cuMemcpyPeerAsync, uintptr(dst), uintptr(dstCtx), uintptr(src), uintptr(srcCtx),
		uintptr(bytes), uintptr(s))
}
