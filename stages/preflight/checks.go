package preflight

import (
	"context"
	"errors"
	"fmt"

	"aicplan/cudaops/doctor"
	"aicplan/cudaops/nvml"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// Checks returns all checks. They open NVML by open, each for itself, so that findings are current.
func Checks(pools *runtimes.Pools, open func() (nvml.API, error)) []Check {
	out := []Check{
		{
			Check: doctor.Check{
				Name:    "framework",
				Summary: "whether what the runtime runs on is installed in the version it requires",
			},
			Needs: "runtime",
			Look:  func(ctx context.Context, t Target) []doctor.Finding { return framework(ctx, pools, t) },
		},
		{
			Check: doctor.Check{Name: "libraries", Summary: "the CUDA libraries that the runtime opens"},
			Needs: "runtime", Look: func(_ context.Context, t Target) []doctor.Finding { return libraries(pools, t) },
		},
	}

	for _, c := range doctor.Checks() {
		out = append(out, Check{Check: c, Look: func(_ context.Context, t Target) []doctor.Finding {
			if c.Host {
				return c.Run(&doctor.Node{Folders: t.Folders}, t.Limits)
			}

			api, err := open()

			var devices []int
			if t.Runtime != nil {
				devices = t.Runtime.Devices
			}
			if devices == nil && err == nil {
				devices = nvml.Shown(api)
			}

			n := &doctor.Node{NVML: api, NVMLErr: err, Devices: devices}
			found := c.Run(n, t.Limits)
			if c.Name == "gpus" {
				found = append(found, wrongDevice(n, t)...)
			}
			return found
		}})
	}

	return out
}

// wrongDevice returns a finding if a device is not one of the system, unless the check names the device.
func wrongDevice(n *doctor.Node, t Target) []doctor.Finding {
	if t.System == nil || n.NVML == nil || t.Limits["name"] != nil {
		return nil
	}

	devices, _ := n.NVML.Devices() // the check has reported an error
	for _, d := range devices {
		name := d.Identity().Name
		if match, known := t.System.MatchesDevice(name); known && !match {
			f := doctor.Finding{Result: doctor.Fail, Device: name,
				Message: fmt.Sprintf("the device is a %s, but the plan is for %s", name, t.System.Name)}
			if fit, ok := systems.ForDevice(name); ok {
				f.Fix = "plan for system " + fit
			}
			return []doctor.Finding{f}
		}
	}

	return nil
}

func libraries(pools *runtimes.Pools, t Target) []doctor.Finding {
	needed := pools.Kind(t.Runtime.Kind).Libraries
	switch {
	case len(needed) == 0:
		return finding(doctor.Pass, "a runtime of kind "+t.Runtime.Kind+" opens no CUDA library of its own", "")
	case len(t.Runtime.Launcher) > 0:
		return finding(doctor.Skip, "workers start through "+t.Runtime.Launcher[0]+"; their libraries cannot be checked here",
			"")
	}
	return doctor.LibraryFindings(doctor.LocalLibraries(), needed...)
}

func framework(ctx context.Context, pools *runtimes.Pools, t Target) []doctor.Finding {
	ctx = runtimes.Running(ctx)
	if m := pools.Absent(ctx, t.Runtime); m != nil {
		return finding(doctor.Skip, "what needs it waits for another place: "+m.What, m.Fix)
	}

	text, err := pools.Framework(ctx, t.Runtime)
	if u, ok := errors.AsType[*runtimes.Unjudged](err); ok {
		return finding(doctor.Skip, u.What, u.Fix)
	}
	if m, ok := errors.AsType[*runtimes.Missing](err); ok {
		return finding(doctor.Fail, m.What, m.Fix)
	}
	if err != nil {
		return finding(doctor.Fail, err.Error(), "")
	}
	return finding(doctor.Pass, text, "")
}

func finding(result, message, fix string) []doctor.Finding {
	return []doctor.Finding{{Result: result, Message: message, Fix: fix}}
}
