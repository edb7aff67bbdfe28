//go:build linux && cgo

package nvml

import (
	"fmt"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
)

var _ Linked = (*device)(nil)

func (d *device) Links() ([]Link, error) {
	var out []Link
	for i := range lib.NVLINK_MAX_LINKS {
		state, r := d.h.GetNvLinkState(i)
		if r == lib.ERROR_INVALID_ARGUMENT {
			break // the device has no more
		}
		if err := d.fail("nvmlDeviceGetNvLinkState", r); err != nil {
			if len(out) > 0 {
				break
			}
			return nil, err
		}
		if state != lib.FEATURE_ENABLED {
			continue
		}
		var l Link
		// Inside a virtual machine the fabric's switches are out of sight: a link
		// whose other end nobody names leads into one.
		typ, r := d.h.GetNvLinkRemoteDeviceType(i)
		l.Switch = r != lib.SUCCESS || typ != lib.NVLINK_DEVICE_TYPE_GPU
		if pci, r := d.h.GetNvLinkRemotePciInfo(i); r == lib.SUCCESS {
			l.Remote = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
		}
		out = append(out, l)
	}
	return out, nil
}
