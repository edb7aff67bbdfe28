// Package cudatest has a fake of NVML for tests without a GPU. Its readings are set by the test.
package cudatest

import (
	"fmt"
	"time"

	"aicplan/cudaops/nvml"
)

// NVML is a fake nvml.API.
type NVML struct {
	Driver string
	CUDA   int
	GPUs   []*GPU
	Err    error // returned by every call
}

// DriverVersion implements nvml.API.
func (a *NVML) DriverVersion() (string, error) { return a.Driver, a.Err }

// CUDAVersion implements nvml.API.
func (a *NVML) CUDAVersion() (int, error) { return a.CUDA, a.Err }

// Devices implements nvml.API.
func (a *NVML) Devices() ([]nvml.Device, error) {
	if a.Err != nil {
		return nil, a.Err
	}

	out := make([]nvml.Device, len(a.GPUs))
	for i, g := range a.GPUs {
		out[i] = g
	}
	return out, nil
}

// GPU is a fake GPU.
type GPU struct {
	ID      nvml.Identity
	Clock   nvml.Clocks
	Why     nvml.Reasons
	Temp    nvml.Temperature
	Draw    nvml.Power
	Mem     nvml.Memory
	Util    nvml.Utilization
	Procs   []nvml.Process
	Persist bool
	Ecc     nvml.ECC
	MigOn   bool
	Now     func() time.Duration // time of the energy counter; nil means it does not advance
	Step    time.Duration        // of the energy counter
	Fail    map[string]error     // errors by method name
}

// H200 returns a healthy device as in a server.
func H200(index int) *GPU {
	return &GPU{
		ID: nvml.Identity{
			Index: index, Name: "NVIDIA H200", UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", index),
			PCI: fmt.Sprintf("0000:%02x:00.0", 0x18+index),
		},
		Clock:   nvml.Clocks{SM: 1980, Memory: 3201, MaxSM: 1980, MaxMem: 3201},
		Temp:    nvml.Temperature{GPU: 34, Slowdown: 92},
		Draw:    nvml.Power{Instant: 110, Average: 110, Limit: 700, Default: 700},
		Mem:     nvml.Memory{Total: 150754820096, Free: 150109880320, Used: 644939776},
		Persist: true, Ecc: nvml.ECC{Enabled: true}, Step: 100 * time.Millisecond,
	}
}

// Identity implements nvml.Device.
func (d *GPU) Identity() nvml.Identity { return d.ID }

// Clocks implements nvml.Device.
func (d *GPU) Clocks() (nvml.Clocks, error) { return d.Clock, d.Fail["Clocks"] }

// Reasons implements nvml.Device.
func (d *GPU) Reasons() (nvml.Reasons, error) { return d.Why, d.Fail["Reasons"] }

// Temperature implements nvml.Device.
func (d *GPU) Temperature() (nvml.Temperature, error) { return d.Temp, d.Fail["Temperature"] }

// Power implements nvml.Device.
func (d *GPU) Power() (nvml.Power, error) { return d.Draw, d.Fail["Power"] }

// Energy implements nvml.Device. It returns the instant power times the time of Now, rounded down to steps.
func (d *GPU) Energy() (float64, error) {
	if d.Now == nil {
		return 0, d.Fail["Energy"]
	}

	t := d.Now()
	if d.Step > 0 {
		t = t / d.Step * d.Step
	}
	return t.Seconds() * d.Draw.Instant, d.Fail["Energy"]
}

// Utilization implements nvml.Device.
func (d *GPU) Utilization() (nvml.Utilization, error) { return d.Util, d.Fail["Utilization"] }

// Memory implements nvml.Device.
func (d *GPU) Memory() (nvml.Memory, error) { return d.Mem, d.Fail["Memory"] }

// Processes implements nvml.Device.
func (d *GPU) Processes() ([]nvml.Process, error) { return d.Procs, d.Fail["Processes"] }

// Persistence implements nvml.Device.
func (d *GPU) Persistence() (bool, error) { return d.Persist, d.Fail["Persistence"] }

// ECC implements nvml.Device.
func (d *GPU) ECC() (nvml.ECC, error) { return d.Ecc, d.Fail["ECC"] }

// MIG implements nvml.Device.
func (d *GPU) MIG() (bool, error) { return d.MigOn, d.Fail["MIG"] }
