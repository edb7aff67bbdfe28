package cuda

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"
)

func (l *DriverLibrary) Version() (int, error) {
	var v int32
	err := l.call(l.cuDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

func (l *DriverLibrary) Count() (int, error) {
	var n int32
	err := l.call(l.cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

func (l *DriverLibrary) Attribute(d Device, a Attribute) (int, error) {
	var v int32
	err := l.call(l.cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(d))
	return int(v), err
}

func (l *DriverLibrary) Info(d Device) (DeviceInfo, error) {
	in := DeviceInfo{Index: int(d)}
	var dev int32
	if err := l.call(l.cuDeviceGet, uintptr(unsafe.Pointer(&dev)), uintptr(d)); err != nil {
		return in, err
	}

	var text [256]byte
	if err := l.call(l.cuDeviceGetName, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)),
		uintptr(d)); err != nil {
		return in, err
	}

	in.Name = untilZero(text[:])
	text = [256]byte{}
	if err := l.call(l.cuDeviceGetPCIBusId, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)),
		uintptr(d)); err != nil {
		return in, err
	}

	in.PCI = strings.ToLower(untilZero(text[:]))
	var id [16]byte
	if err := l.call(l.cuDeviceGetUuid_v2, uintptr(unsafe.Pointer(&id[0])), uintptr(d)); err != nil {
		return in, err
	}

	in.UUID = formatUUID(id)
	var total uint64
	if err := l.call(l.cuDeviceTotalMem_v2, uintptr(unsafe.Pointer(&total)), uintptr(d)); err != nil {
		return in, err
	}

	in.MemoryBytes = int64(total)
	var l2 int
	for attr, at := range map[Attribute]*int{
		AttrMultiprocessors: &in.SMs, AttrL2Bytes: &l2, AttrCCMajor: &in.Major, AttrCCMinor: &in.Minor,
	} {
		v, err := l.Attribute(d, attr)
		if err != nil {
			return in, err
		}
		*at = v
	}

	in.L2Bytes = int64(l2)
	return in, nil
}

func formatUUID(id [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

func untilZero(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (l *DriverLibrary) Primary(d Device) (Context, error) {
	var c Context
	err := l.call(l.cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c)), uintptr(d))
	return c, err
}

func (l *DriverLibrary) SetCurrent(c Context) error {
	return l.call(l.cuCtxSetCurrent, uintptr(c))
}

func (l *DriverLibrary) CanAccessPeer(dev, peer Device) (bool, error) {
	var can int32
	err := l.call(l.cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(&can)), uintptr(dev), uintptr(peer))
	return can != 0, err
}

func (l *DriverLibrary) EnablePeer(peer Context) error {
	err := l.call(l.cuCtxEnablePeerAccess, uintptr(peer), 0)
	if e, ok := err.(*DriverError); ok && e.Code == CodePeerEnabled {
		return nil
	}
	return err
}
