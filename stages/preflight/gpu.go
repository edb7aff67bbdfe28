package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/cudaops/nvml"
	"aicplan/systems"
)

// GPUChecks look at the GPUs through the driver's management library; open
// makes the connection, anew for each check, so that what they see is now.
func GPUChecks(open func() (nvml.API, error)) []Check {
	each := func(look func(nvml.Device, Target) Finding) func(context.Context, Target) []Finding {
		return func(_ context.Context, t Target) []Finding {
			return withDevices(open, t, func(_ nvml.API, ds []nvml.Device) []Finding {
				var out []Finding
				for _, d := range ds {
					f := look(d, t)
					f.Message = fmt.Sprintf("GPU %d %s", d.Identity().Index, f.Message)
					out = append(out, f)
				}
				return out
			})
		}
	}
	number := func(name string) []hcl.AttributeSchema { return []hcl.AttributeSchema{{Name: name}} }
	return []Check{
		{Name: "gpus", Summary: "number and name of the GPUs, against the system", Schema: number("min"), Look: func(_ context.Context, t Target) []Finding {
			return withDevices(open, t, func(_ nvml.API, ds []nvml.Device) []Finding { return lookGPUs(ds, t) })
		}},
		{Name: "exclusive", Summary: "no compute process of somebody else on the GPUs", Look: each(lookExclusive)},
		{Name: "persistence", Summary: "the driver stays loaded between processes", Schema: number("apply"), Look: each(lookPersistence)},
		{Name: "clocks", Summary: "SM clocks locked or able to reach their maximum", Schema: []hcl.AttributeSchema{{Name: "lock_mhz"}, {Name: "apply"}}, Look: each(lookClocks)},
		{Name: "throttle", Summary: "no thermal or power slowdown at this moment", Look: each(lookThrottle)},
		{Name: "temperature", Summary: "GPUs are below a temperature", Schema: number("max_celsius"), Look: each(lookTemperature)},
		{Name: "ecc", Summary: "ECC is on and has no uncorrectable errors", Look: each(lookECC)},
		{Name: "mig", Summary: "GPUs are whole, not partitioned", Look: each(lookMIG)},
		{Name: "gpu_memory", Summary: "free memory on the GPUs", Schema: number("min_gb"), Look: each(lookGPUMemory)},
		{Name: "driver", Summary: "version of the kernel driver", Schema: number("min"), Look: func(_ context.Context, t Target) []Finding {
			return withDevices(open, t, func(api nvml.API, _ []nvml.Device) []Finding { return lookDriver(api, t) })
		}},
	}
}

// withDevices opens the library and looks at the devices of the runtime.
func withDevices(open func() (nvml.API, error), t Target, look func(nvml.API, []nvml.Device) []Finding) []Finding {
	api, err := open()
	if err != nil {
		return []Finding{{Message: "the GPUs cannot be looked at: " + err.Error(), Fix: "run on a machine with an NVIDIA GPU and its driver"}}
	}
	defer api.Close()
	all, err := api.Devices()
	if err != nil {
		return []Finding{{Message: "the GPUs cannot be listed: " + err.Error(), Fix: "look at nvidia-smi; the driver may have to be loaded again"}}
	}
	var ds []nvml.Device
	for _, d := range all {
		if t.Runtime == nil || t.Runtime.Devices == nil || slices.Contains(t.Runtime.Devices, d.Identity().Index) {
			ds = append(ds, d)
		}
	}
	if len(ds) == 0 {
		return []Finding{{Message: fmt.Sprintf("none of the %d GPUs is one of the runtime's devices", len(all)), Fix: "look at devices in the runtime block, and at nvidia-smi -L"}}
	}
	return look(api, ds)
}

// reading turns an error of the library into a finding; unsupported readings
// cannot be judged, everything else is a complaint.
func reading(err error) (Finding, bool) {
	if err == nil {
		return Finding{}, false
	}
	return Finding{Skip: errors.Is(err, nvml.ErrUnsupported), Message: err.Error()}, true
}

func lookGPUs(ds []nvml.Device, t Target) []Finding {
	var out []Finding
	if least := int(t.Number("min", 1)); len(ds) < least {
		out = append(out, Finding{Message: fmt.Sprintf("%d GPUs, %d asked for", len(ds), least), Fix: "take a larger node"})
	}
	for _, d := range ds {
		id := d.Identity()
		f := Finding{OK: true, Message: fmt.Sprintf("GPU %d is %s", id.Index, id.Name)}
		if t.System != nil {
			if match, known := t.System.MatchesDevice(id.Name); known && !match {
				f.OK = false
				f.Message += fmt.Sprintf(", but the plan is for %s", t.System.Name)
				if fit, ok := systems.ForDevice(id.Name); ok {
					f.Fix = fmt.Sprintf("plan for system %s", fit)
				}
			}
		}
		out = append(out, f)
	}
	return out
}

func lookExclusive(d nvml.Device, _ Target) Finding {
	procs, err := d.Processes()
	if f, bad := reading(err); bad {
		return f
	}
	var foreign []string
	for _, p := range procs {
		if p.PID != os.Getpid() {
			foreign = append(foreign, fmt.Sprintf("pid %d (%d MB)", p.PID, p.Memory>>20))
		}
	}
	if len(foreign) == 0 {
		return Finding{OK: true, Message: "is free"}
	}
	return Finding{Message: "is used by " + strings.Join(foreign, ", "), Fix: "end these processes, or choose other devices in the runtime block"}
}

func lookPersistence(d nvml.Device, t Target) Finding {
	on, err := d.Persistence()
	if f, bad := reading(err); bad {
		return f
	}
	if on {
		return Finding{OK: true, Message: "has persistence mode on"}
	}
	command := fmt.Sprintf("nvidia-smi -i %d -pm 1", d.Identity().Index)
	if t.Bool("apply") {
		if err := d.SetPersistence(true); err != nil {
			return Finding{Message: "persistence mode could not be set: " + err.Error(), Fix: "as root: " + command}
		}
		return Finding{OK: true, Message: "got persistence mode, as the plan asks"}
	}
	return Finding{Message: "has persistence mode off: the first case of every process waits for the driver", Fix: "as root: " + command}
}

func lookClocks(d nvml.Device, t Target) Finding {
	c, err := d.Clocks()
	if f, bad := reading(err); bad {
		return f
	}
	why, err := d.Reasons()
	if f, bad := reading(err); bad {
		return f
	}
	want := int(t.Number("lock_mhz", float64(c.MaxSM)))
	command := fmt.Sprintf("nvidia-smi -i %d -lgc %d,%d", d.Identity().Index, want, want)
	if t.Bool("apply") {
		if err := d.LockClocks(want, want); err != nil {
			return Finding{Message: "clocks could not be locked: " + err.Error(), Fix: "as root: " + command}
		}
		return Finding{OK: true, Message: fmt.Sprintf("got its SM clock locked at %d MHz, as the plan asks", want)}
	}
	if why&nvml.AppClocks != 0 {
		return Finding{OK: true, Message: fmt.Sprintf("has its clocks set by somebody: SM at %d of %d MHz", c.SM, c.MaxSM)}
	}
	return Finding{
		Message: fmt.Sprintf("has clocks that are not locked (SM %d of %d MHz): the power cap will move them under load", c.SM, c.MaxSM),
		Fix:     "as root: " + command + "; rows tell the clock that they were measured at",
	}
}

func lookThrottle(d nvml.Device, _ Target) Finding {
	why, err := d.Reasons()
	if f, bad := reading(err); bad {
		return f
	}
	if why&nvml.Harmful != 0 {
		return Finding{Message: "is slowed down: " + (why & nvml.Harmful).String(), Fix: "let it cool; look at nvidia-smi -q -d PERFORMANCE"}
	}
	return Finding{OK: true, Message: "is not slowed down (" + why.String() + ")"}
}

func lookTemperature(d nvml.Device, t Target) Finding {
	c, err := d.Temperature()
	if f, bad := reading(err); bad {
		return f
	}
	limit := int(t.Number("max_celsius", 70))
	if c.GPU > limit {
		return Finding{Message: fmt.Sprintf("is at %d C, at most %d C asked for", c.GPU, limit), Fix: "let it cool before measuring"}
	}
	return Finding{OK: true, Message: fmt.Sprintf("is at %d C", c.GPU)}
}

func lookECC(d nvml.Device, _ Target) Finding {
	e, err := d.ECC()
	if f, bad := reading(err); bad {
		return f
	}
	switch {
	case !e.Enabled:
		return Finding{Message: "has ECC off: its memory bandwidth is not that of a production node", Fix: fmt.Sprintf("as root: nvidia-smi -i %d -e 1, then reboot", d.Identity().Index)}
	case e.Uncorrected > 0:
		return Finding{Message: fmt.Sprintf("has %d uncorrectable memory errors since the driver was loaded", e.Uncorrected), Fix: "drain the node and have the GPU looked at"}
	}
	return Finding{OK: true, Message: "has ECC on and no uncorrectable errors"}
}

func lookMIG(d nvml.Device, _ Target) Finding {
	on, err := d.MIG()
	if f, bad := reading(err); bad {
		return f
	}
	if on {
		return Finding{Message: "is partitioned (MIG): a slice's numbers are not the GPU's", Fix: fmt.Sprintf("as root: nvidia-smi -i %d -mig 0", d.Identity().Index)}
	}
	return Finding{OK: true, Message: "is whole"}
}

func lookGPUMemory(d nvml.Device, t Target) Finding {
	m, err := d.Memory()
	if f, bad := reading(err); bad {
		return f
	}
	limit := t.Number("min_gb", 0.9*float64(m.Total)/gb)
	free := float64(m.Free) / gb
	if free < limit {
		return Finding{Message: fmt.Sprintf("has %.1f GB free, %.4g GB asked for", free, limit), Fix: "end what uses it; nvidia-smi lists the processes"}
	}
	return Finding{OK: true, Message: fmt.Sprintf("has %.1f GB free", free)}
}

func lookDriver(api nvml.API, t Target) []Finding {
	v, err := api.DriverVersion()
	if f, bad := reading(err); bad {
		return []Finding{f}
	}
	if least := t.Text("min", ""); least != "" && versionLess(v, least) {
		return []Finding{{Message: fmt.Sprintf("driver %s, at least %s asked for", v, least), Fix: "update the driver"}}
	}
	return []Finding{{OK: true, Message: "driver " + v}}
}

// versionLess compares dotted numbers part by part.
func versionLess(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y int
		if i < len(as) {
			fmt.Sscan(as[i], &x)
		}
		if i < len(bs) {
			fmt.Sscan(bs[i], &y)
		}
		if x != y {
			return x < y
		}
	}
	return false
}
