//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"sort"
	"sync"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Open initializes the management library. It returns an error if there is no driver.
//
// A process initializes the library once and never shuts it down. That must not happen during a call, and
// calls may take seconds if the driver is busy. Telemetry abandons such calls, so it is not possible to
// wait for all of them.
func Open() (API, error) { return process.open(lib.New) }

var process shared

// shared is the library instance shared by all users in a process.
type shared struct {
	mu sync.Mutex
	l  lib.Interface
}

func (s *shared) open(start func(...lib.LibraryOption) lib.Interface) (API, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.l == nil {
		l := start()
		if r := l.Init(); r != lib.SUCCESS {
			if r == lib.ERROR_LIBRARY_NOT_FOUND {
				return nil, fmt.Errorf("libnvidia-ml.so.1 not found: it comes with the NVIDIA driver")
			}
			return nil, failed(l, "nvmlInit", r)
		}
		s.l = l
	}

	return &library{s.l}, nil
}

type library struct{ lib.Interface }

func failed(l lib.Interface, call string, r lib.Return) error {
	if r == lib.SUCCESS {
		return nil
	}

	if r == lib.ERROR_NOT_SUPPORTED || r == lib.ERROR_FUNCTION_NOT_FOUND {
		return fmt.Errorf("%s: %w", call, ErrUnsupported)
	}
	return fmt.Errorf("%s: %s", call, l.ErrorString(r))
}

func (l *library) DriverVersion() (string, error) {
	v, r := l.SystemGetDriverVersion()
	return v, failed(l, "nvmlSystemGetDriverVersion", r)
}

func (l *library) CUDAVersion() (int, error) {
	v, r := l.SystemGetCudaDriverVersion()
	return v, failed(l, "nvmlSystemGetCudaDriverVersion", r)
}

func (l *library) Devices() ([]Device, error) {
	n, r := l.DeviceGetCount()
	if err := failed(l, "nvmlDeviceGetCount", r); err != nil {
		return nil, err
	}

	var out []*device
	for i := range n {
		h, r := l.DeviceGetHandleByIndex(i)
		if err := failed(l, "nvmlDeviceGetHandleByIndex", r); err != nil {
			return nil, err
		}

		d := &device{l: l, h: h}
		if d.id.Name, r = h.GetName(); r != lib.SUCCESS {
			return nil, failed(l, "nvmlDeviceGetName", r)
		}

		if d.id.UUID, r = h.GetUUID(); r != lib.SUCCESS {
			return nil, failed(l, "nvmlDeviceGetUUID", r)
		}

		pci, r := h.GetPciInfo()
		if err := failed(l, "nvmlDeviceGetPciInfo", r); err != nil {
			return nil, err
		}

		d.id.PCI = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
		out = append(out, d)
	}

	sort.Slice(out, func(i, j int) bool { return out[i].id.PCI < out[j].id.PCI })
	list := make([]Device, len(out))
	for i, d := range out {
		d.id.Index = i
		list[i] = d
	}

	return list, nil
}

type device struct {
	l  *library
	h  lib.Device
	id Identity
}

func (d *device) fail(call string, r lib.Return) error { return failed(d.l, call, r) }

func (d *device) Identity() Identity { return d.id }

func (d *device) Clocks() (Clocks, error) {
	var c Clocks
	for _, q := range []struct {
		at   *int
		get  func(lib.ClockType) (uint32, lib.Return)
		typ  lib.ClockType
		call string
	}{
		{&c.SM, d.h.GetClockInfo, lib.CLOCK_SM, "nvmlDeviceGetClockInfo"},
		{&c.Memory, d.h.GetClockInfo, lib.CLOCK_MEM, "nvmlDeviceGetClockInfo"},
		{&c.MaxSM, d.h.GetMaxClockInfo, lib.CLOCK_SM, "nvmlDeviceGetMaxClockInfo"},
		{&c.MaxMem, d.h.GetMaxClockInfo, lib.CLOCK_MEM, "nvmlDeviceGetMaxClockInfo"},
	} {
		v, r := q.get(q.typ)
		if err := d.fail(q.call, r); err != nil {
			return c, err
		}
		*q.at = int(v)
	}

	return c, nil
}

func (d *device) Reasons() (Reasons, error) {
	v, r := d.h.GetCurrentClocksEventReasons()
	if r == lib.ERROR_FUNCTION_NOT_FOUND {
		v, r = d.h.GetCurrentClocksThrottleReasons()
	}
	return Reasons(v), d.fail("nvmlDeviceGetCurrentClocksEventReasons", r)
}

func (d *device) Temperature() (Temperature, error) {
	v, r := d.h.GetTemperature(lib.TEMPERATURE_GPU)
	if err := d.fail("nvmlDeviceGetTemperature", r); err != nil {
		return Temperature{}, err
	}

	t := Temperature{GPU: int(v)}
	if s, r := d.h.GetTemperatureThreshold(lib.TEMPERATURE_THRESHOLD_SLOWDOWN); r == lib.SUCCESS {
		t.Slowdown = int(s)
	}
	return t, nil
}

func (d *device) Power() (Power, error) {
	var p Power
	v, r := d.h.GetPowerUsage()
	if err := d.fail("nvmlDeviceGetPowerUsage", r); err != nil {
		return p, err
	}

	p.Average = float64(v) / 1e3
	if v, r = d.h.GetEnforcedPowerLimit(); r != lib.SUCCESS {
		return p, d.fail("nvmlDeviceGetEnforcedPowerLimit", r)
	}

	p.Limit = float64(v) / 1e3
	if v, r := d.h.GetPowerManagementDefaultLimit(); r == lib.SUCCESS {
		p.Default = float64(v) / 1e3
	}

	f := []lib.FieldValue{{FieldId: lib.FI_DEV_POWER_INSTANT}}
	if r := d.h.GetFieldValues(f); r == lib.SUCCESS && lib.Return(f[0].NvmlReturn) == lib.SUCCESS &&
		lib.ValueType(f[0].ValueType) == lib.VALUE_TYPE_UNSIGNED_INT {
		p.Instant = float64(binary.NativeEndian.Uint32(f[0].Value[:])) / 1e3
	}

	return p, nil
}

func (d *device) Energy() (float64, error) {
	mj, r := d.h.GetTotalEnergyConsumption()
	return float64(mj) / 1e3, d.fail("nvmlDeviceGetTotalEnergyConsumption", r)
}

func (d *device) Utilization() (Utilization, error) {
	u, r := d.h.GetUtilizationRates()
	return Utilization{GPU: float64(u.Gpu), Memory: float64(u.Memory)}, d.fail("nvmlDeviceGetUtilizationRates", r)
}

func (d *device) Memory() (Memory, error) {
	m, r := d.h.GetMemoryInfo()
	return Memory{Total: int64(m.Total), Free: int64(m.Free), Used: int64(m.Used)}, d.fail("nvmlDeviceGetMemoryInfo", r)
}

func (d *device) Processes() ([]Process, error) {
	list, r := d.h.GetComputeRunningProcesses()
	if err := d.fail("nvmlDeviceGetComputeRunningProcesses", r); err != nil {
		return nil, err
	}

	out := make([]Process, 0, len(list))
	for _, p := range list {
		mem := int64(p.UsedGpuMemory)
		if mem < 0 {
			mem = 0 // the driver's value for unknown
		}
		out = append(out, Process{PID: int(p.Pid), Memory: mem})
	}

	return out, nil
}

func (d *device) Persistence() (bool, error) {
	v, r := d.h.GetPersistenceMode()
	return v == lib.FEATURE_ENABLED, d.fail("nvmlDeviceGetPersistenceMode", r)
}

func (d *device) ECC() (ECC, error) {
	on, _, r := d.h.GetEccMode()
	if err := d.fail("nvmlDeviceGetEccMode", r); err != nil {
		return ECC{}, err
	}

	e := ECC{Enabled: on == lib.FEATURE_ENABLED}
	if n, r := d.h.GetTotalEccErrors(lib.MEMORY_ERROR_TYPE_UNCORRECTED, lib.VOLATILE_ECC); r == lib.SUCCESS {
		e.Uncorrected = n
	}
	return e, nil
}

func (d *device) MIG() (bool, error) {
	on, _, r := d.h.GetMigMode()
	if r == lib.ERROR_NOT_SUPPORTED {
		return false, nil
	}
	return on == lib.DEVICE_MIG_ENABLE, d.fail("nvmlDeviceGetMigMode", r)
}

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
