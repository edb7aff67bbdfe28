// Package nvml reads the state of GPUs from the driver's management library (clocks, power, temperature,
// processes) and can change some settings. The real library is accessed with cgo. In builds without cgo,
// Open returns ErrNotBuilt.
package nvml

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotBuilt is returned by Open in builds without cgo or for systems without NVML.
var ErrNotBuilt = errors.New("no NVML in this build: it needs linux and CGO_ENABLED=1")

// ErrUnsupported is wrapped by errors for features that the device or driver does not support.
var ErrUnsupported = errors.New("not supported by this device or driver")

// API is the management library.
type API interface {
	// DriverVersion returns the version of the kernel driver, for example 580.159.04.
	DriverVersion() (string, error)
	// CUDAVersion returns the newest CUDA version that the driver supports, as 13000.
	CUDAVersion() (int, error)
	// Devices returns all GPUs in PCI order. It ignores CUDA_VISIBLE_DEVICES.
	Devices() ([]Device, error)
}

// Device is one GPU. Errors wrap ErrUnsupported if the device does not support the reading.
type Device interface {
	Identity() Identity
	Clocks() (Clocks, error)
	// Reasons returns why clocks are currently reduced. The library updates them about ten times per
	// second.
	Reasons() (Reasons, error)
	Temperature() (Temperature, error)
	Power() (Power, error)
	// Energy returns the energy in joules since the driver was loaded. It is updated every 20 to 100 ms.
	Energy() (float64, error)
	Memory() (Memory, error)
	// Utilization covers the driver's last sample period of 1/6 to 1 second.
	Utilization() (Utilization, error)
	// Processes returns the compute processes of the device.
	Processes() ([]Process, error)
	Persistence() (bool, error)
	ECC() (ECC, error)
	MIG() (bool, error)
}

// Identity identifies a device.
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

// Temperature is in degrees Celsius. A limit of 0 is unknown.
type Temperature struct {
	GPU      int `json:"gpu"`
	Slowdown int `json:"slowdown,omitempty"` // temperature above which the device slows down
}

// Power is in watts.
type Power struct {
	Instant float64 `json:"instant"` // updated every 100 ms; 0 if unknown
	Average float64 `json:"average"` // over one second
	Limit   float64 `json:"limit"`   // enforced
	// Default is the device's default limit.
	Default float64 `json:"default,omitempty"`
}

// Memory is in bytes.
type Memory struct {
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
	Used  int64 `json:"used"`
}

// Utilization is the percentage of time in which a kernel was running and in which device memory was
// accessed.
type Utilization struct {
	GPU    float64 `json:"gpu"`
	Memory float64 `json:"memory"`
}

// Process is a compute process on a device.
type Process struct {
	PID    int   `json:"pid"`
	Memory int64 `json:"memory,omitempty"` // bytes; 0 if unknown
}

// ECC is the state of error correction.
type ECC struct {
	Enabled bool `json:"enabled"`
	// Uncorrected counts uncorrectable errors since the driver was loaded.
	Uncorrected uint64 `json:"uncorrected"`
}

// Reasons is a set of flags.
type Reasons uint64

// Reasons defined by the library.
const (
	Idle      Reasons = 1 << iota
	AppClocks         // clocks were set by a user
	PowerCap
	HwSlowdown
	SyncBoost
	SwThermal
	HwThermal
	PowerBrake
	DisplayClock

	// Harmful are the reasons that invalidate measurements.
	Harmful = HwSlowdown | SwThermal | HwThermal | PowerBrake
)

// reasonNames are the names of the reasons in the order of their bits.
var reasonNames = []string{"idle", "application clocks", "power cap", "hardware slowdown", "sync boost",
	"software thermal slowdown", "hardware thermal slowdown", "power brake", "display clock"}

// String returns the names of the reasons, or "none".
func (r Reasons) String() string {
	var names []string
	for i, name := range reasonNames {
		if bit := Reasons(1 << i); r&bit != 0 {
			names = append(names, name)
			r &^= bit
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

// Find returns the device with a UUID, or an error if there is none.
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

// Linked is implemented by devices that report their NVLinks.
type Linked interface {
	// Links returns the active NVLinks. The error wraps ErrUnsupported if the device has no NVLink.
	Links() ([]Link, error)
}

// Link is one active NVLink.
type Link struct {
	// Remote is the PCI address of the device at the other end in lower case, or "" if unknown.
	Remote string `json:"remote,omitempty"`
	// Switch is true if the other end is an NVSwitch or is not visible.
	Switch bool `json:"switch"`
}

const (
	// freePoll is the interval in which a device's memory is checked. The driver responds in about a
	// millisecond.
	freePoll = 200 * time.Millisecond
	// Memory that the driver uses on an idle device.
	idleShare = 0.03
	idleLeast = 3 << 29 // 1.5 GiB
)

// WaitFree waits until a device's memory is free except for what the driver uses. After patience, it
// returns an error with the amount of used memory and the processes.
func WaitFree(ctx context.Context, d Device, patience time.Duration) error {
	for waited := time.Duration(0); ; waited += freePoll {
		m, err := d.Memory()
		if err != nil {
			return fmt.Errorf("its memory cannot be read: %w", err)
		}

		if m.Used <= max(idleLeast, int64(idleShare*float64(m.Total))) {
			return nil
		}

		if waited >= patience {
			return fmt.Errorf("%.1f of %.1f GiB are still in use after %v%s", gib(m.Used), gib(m.Total), patience,
				users(d))
		}

		timer := time.NewTimer(freePoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// users describes the visible processes on a device.
func users(d Device) string {
	procs, err := d.Processes()
	if err != nil || len(procs) == 0 {
		return ", by processes that cannot be seen from here"
	}

	var parts []string
	for _, p := range procs {
		parts = append(parts, fmt.Sprintf("%d (%.1f GiB)", p.PID, gib(p.Memory)))
	}
	return ", by process " + strings.Join(parts, ", ")
}
