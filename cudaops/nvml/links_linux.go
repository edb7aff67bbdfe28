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
			break // the device has no more links
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

		// Virtual machines do not show the NVSwitches of the fabric, so a link with an unknown other end
		// leads to a switch.
		typ, r := d.h.GetNvLinkRemoteDeviceType(i)
		l.Switch = r != lib.SUCCESS || typ != lib.NVLINK_DEVICE_TYPE_GPU

		if pci, r := d.h.GetNvLinkRemotePciInfo(i); r == lib.SUCCESS {
			l.Remote = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
		}

		out = append(out, l)
	}

	return out, nil
}
