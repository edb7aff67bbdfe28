// Package nvml reads (and on request sets) what the driver's management library
// knows about GPUs: clocks, power, temperature, processes. The real library is
// reached through cgo; builds without it have Open return ErrNotBuilt.
package nvml

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotBuilt is returned by Open in builds without cgo or for systems that
// NVML does not exist on.
var ErrNotBuilt = errors.New("no NVML in this build: it needs linux and CGO_ENABLED=1")

// ErrUnsupported is wrapped by errors about what a device or driver does not
// offer.
var ErrUnsupported = errors.New("not supported by this device or driver")

// ErrPermission is wrapped by errors about what only root may do.
var ErrPermission = errors.New("no permission: it needs root")

// API is the management library.
type API interface {
	// DriverVersion is the kernel driver's, for example 580.159.04.
	DriverVersion() (string, error)
	// CUDAVersion is the newest CUDA that the driver supports, as 13000.
	CUDAVersion() (int, error)
	// Devices lists all GPUs in PCI order, whatever CUDA_VISIBLE_DEVICES says.
	Devices() ([]Device, error)
	Close() error
}

// Device is one GPU. Errors wrap ErrUnsupported where the device lacks the
// reading.
type Device interface {
	Identity() Identity
	Clocks() (Clocks, error)
	// Reasons are why clocks are lower than they could be, at this moment; the
	// library refreshes them about ten times a second.
	Reasons() (Reasons, error)
	Temperature() (Temperature, error)
	Power() (Power, error)
	// Energy is the device's counter in joules since the driver was loaded; it
	// moves in steps of some 20 to 100 ms.
	Energy() (float64, error)
	Memory() (Memory, error)
	// Utilization is over the driver's last sample period, 1/6 to 1 second.
	Utilization() (Utilization, error)
	// Processes lists the compute processes of the device.
	Processes() ([]Process, error)
	Persistence() (bool, error)
	ECC() (ECC, error)
	MIG() (bool, error)
	// LockClocks, UnlockClocks and SetPersistence change the device for everybody
	// and need root.
	LockClocks(minMHz, maxMHz int) error
	UnlockClocks() error
	SetPersistence(on bool) error
}

// Identity names a device.
type Identity struct {
	Index int    `json:"index"` // in PCI order
	Name  string `json:"name"`
	UUID  string `json:"uuid"`
	PCI   string `json:"pci"` // 0000:18:00.0, lower case
}

// Clocks are in MHz.
type Clocks struct {
	SM     int `json:"sm"`
	Memory int `json:"memory"`
	MaxSM  int `json:"max_sm"`
	MaxMem int `json:"max_memory"`
}

// Temperature is in degrees Celsius; 0 limits are unknown.
type Temperature struct {
	GPU      int `json:"gpu"`
	Slowdown int `json:"slowdown,omitempty"` // above it the device slows down
}

// Power is in watts.
type Power struct {
	Instant float64 `json:"instant"` // refreshed every 100 ms; 0 if unknown
	Average float64 `json:"average"` // over one second
	Limit   float64 `json:"limit"`   // enforced
	// Default is the limit that the device comes with.
	Default float64 `json:"default,omitempty"`
}

// Memory is in bytes.
type Memory struct {
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
	Used  int64 `json:"used"`
}

// Utilization is the share of time, in percent, in which a kernel ran and in
// which device memory was read or written.
type Utilization struct {
	GPU    float64 `json:"gpu"`
	Memory float64 `json:"memory"`
}

// Process is a compute process on a device.
type Process struct {
	PID    int   `json:"pid"`
	Memory int64 `json:"memory,omitempty"` // bytes; 0 if the driver does not say
}

// ECC is the state of error correction.
type ECC struct {
	Enabled bool `json:"enabled"`
	// Uncorrected counts uncorrectable errors since the driver was loaded.
	Uncorrected uint64 `json:"uncorrected"`
}

// Reasons is a set of bits.
type Reasons uint64

// The reasons that the library names.
const (
	Idle         Reasons = 0x1
	AppClocks    Reasons = 0x2 // clocks are set by somebody
	PowerCap     Reasons = 0x4
	HwSlowdown   Reasons = 0x8
	SyncBoost    Reasons = 0x10
	SwThermal    Reasons = 0x20
	HwThermal    Reasons = 0x40
	PowerBrake   Reasons = 0x80
	DisplayClock Reasons = 0x100
	// Harmful are those that no measurement should be made under.
	Harmful = HwSlowdown | SwThermal | HwThermal | PowerBrake
)

var reasonNames = []struct {
	bit  Reasons
	name string
}{
	{Idle, "idle"},
	{AppClocks, "application clocks"},
	{PowerCap, "power cap"},
	{HwSlowdown, "hardware slowdown"},
	{SyncBoost, "sync boost"},
	{SwThermal, "software thermal slowdown"},
	{HwThermal, "hardware thermal slowdown"},
	{PowerBrake, "power brake"},
	{DisplayClock, "display clock"},
}

// String lists the reasons; "none" when there are none.
func (r Reasons) String() string {
	var names []string
	for _, n := range reasonNames {
		if r&n.bit != 0 {
			names = append(names, n.name)
			r &^= n.bit
		}
	}
	if r != 0 {
		names = append(names, fmt.Sprintf("unknown %#x", uint64(r)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Find returns the device with a UUID.
func Find(api API, uuid string) (Device, error) {
	devices, err := api.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if strings.EqualFold(d.Identity().UUID, uuid) {
			return d, nil
		}
	}
	return nil, fmt.Errorf("NVML knows no device %s among its %d", uuid, len(devices))
}
