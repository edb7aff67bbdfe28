package comm

import (
	"aicplan/cudaops/driver"
	"aicplan/cudaops/nvml"
)

// kernelDriver is the version that NVML knows; "" without NVML.
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

// nvlinks asks NVML how many NVLinks two devices have to each other, or, where
// switches are between them, into the same fabric. Nil without NVML: the rows
// then leave the number out.
func nvlinks(d driver.API) func(a, b int) (int, bool) {
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
		info, err := d.Info(driver.Device(i))
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

// countLinks is the number of links from one device that end at the other, or
// the fewest that both have into switches.
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
