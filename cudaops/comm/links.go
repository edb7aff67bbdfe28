package comm

import (
	"aicplan/cudaops/cuda"
	"aicplan/cudaops/nvml"
)

// kernelDriver returns the driver version reported by NVML, or "" without NVML.
func kernelDriver() string {
	lib, err := nvml.Open()
	if err != nil {
		return ""
	}

	v, err := lib.DriverVersion()
	if err != nil {
		return ""
	}
	return v
}

// nvlinks returns a function that counts the NVLinks between two devices, or into the same fabric if the
// devices are connected by switches. It returns nil without NVML; rows then omit the number.
func nvlinks(d cuda.Driver) func(a, b int) (int, bool) {
	lib, err := nvml.Open()
	if err != nil {
		return nil
	}

	devices, err := lib.Devices()
	if err != nil {
		return nil
	}

	byUUID := map[string]nvml.Device{}
	for _, dev := range devices {
		byUUID[dev.Identity().UUID] = dev
	}

	find := func(i int) (nvml.Linked, string, bool) {
		info, err := d.Info(cuda.Device(i))
		if err != nil {
			return nil, "", false
		}
		l, ok := byUUID[info.UUID].(nvml.Linked)
		return l, info.PCI, ok
	}

	return func(a, b int) (int, bool) {
		from, _, okFrom := find(a)
		to, toPCI, okTo := find(b)
		if !okFrom || !okTo {
			return 0, false
		}
		out, errOut := from.Links()
		back, errBack := to.Links()
		if errOut != nil || errBack != nil {
			return 0, false
		}
		return countLinks(out, back, toPCI), true
	}
}

// countLinks returns the number of direct links from one device to the other, plus the smaller of both
// devices' numbers of links to switches.
func countLinks(out, back []nvml.Link, to string) int {
	direct, switched, theirs := 0, 0, 0
	for _, l := range out {
		switch {
		case l.Switch:
			switched++
		case l.Remote == to:
			direct++
		}
	}

	for _, l := range back {
		if l.Switch {
			theirs++
		}
	}

	return direct + min(switched, theirs)
}
