package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/cudaops/doctor"
	"aicplan/cudaops/nvml"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

// GPUChecks returns the checks of GPUs. They read NVML, which open opens for each check, so that findings are
// current.
func GPUChecks(open func() (nvml.API, error)) []Check {
	var out []Check
	for _, c := range doctor.Checks() {
		check := Check{Name: c.Name, Summary: c.Summary}
		for _, name := range c.Attributes {
			check.Schema = append(check.Schema, hcl.AttributeSchema{Name: name})
		}

		check.Look = func(_ context.Context, t Target) []Finding {
			api, err := open()
			if err == nil {
				defer api.Close()
			}

			var devices []int
			if t.Runtime != nil {
				devices = t.Runtime.Devices
			}
			if devices == nil && err == nil {
				devices = visible(api)
			}

			n := doctor.LocalNode(api, err, devices)
			found := c.Run(n, t)
			if c.Name == "gpus" {
				found = append(found, wrongDevice(n, t)...)
			}
			return findings(found)
		}
		out = append(out, check)
	}
	return out
}

// visible returns the devices that CUDA_VISIBLE_DEVICES does not hide from workers. It returns nil if it hides
// none, or all, which is reported when a device is opened.
func visible(api nvml.API) []int {
	all, err := nvml.Identities(api)
	if err != nil {
		return nil
	}

	hidden := runtimes.Hidden(all)
	if len(hidden) == 0 {
		return nil
	}

	var out []int
	for _, d := range all {
		if !slices.Contains(hidden, d) {
			out = append(out, d.Index)
		}
	}

	return out
}

// wrongDevice returns a finding if a device is not one of the system, unless the check names the device.
func wrongDevice(n *doctor.Node, t Target) []doctor.Finding {
	if t.System == nil || n.NVML == nil || t.Args["name"].IsKnown() && !t.Args["name"].IsNull() {
		return nil
	}

	devices, err := n.NVML.Devices()
	if err != nil {
		return nil // the check has reported it
	}

	for _, d := range devices {
		name := d.Identity().Name
		if match, known := t.System.MatchesDevice(name); known && !match {
			f := doctor.Finding{Check: "gpus", Result: doctor.Fail, Device: name,
				Message: fmt.Sprintf("the device is a %s, but the plan is for %s", name, t.System.Name)}
			if fit, ok := systems.ForDevice(name); ok {
				f.Fix = "plan for system " + fit
			}
			return []doctor.Finding{f}
		}
	}

	return nil
}

// LibraryChecks returns the check of the CUDA libraries that runtimes open.
func LibraryChecks(pools *runtimes.Pools) []Check {
	return []Check{{
		Name: "libraries", Summary: "the CUDA libraries that the runtime opens", Needs: "runtime",
		Look: func(_ context.Context, t Target) []Finding {
			libraries := pools.Kind(t.Runtime.Kind).About().Libraries
			if len(libraries) == 0 {
				return []Finding{{OK: true, Message: "a runtime of kind " + t.Runtime.Kind + " opens no CUDA library of its own"}}
			}

			if len(t.Runtime.Launcher) > 0 {
				return []Finding{{Skip: true, Message: "workers start through " + t.Runtime.Launcher[0] +
					"; their libraries cannot be checked here"}}
			}
			return findings(doctor.LibraryFindings(doctor.LocalLibraries(), libraries...))
		},
	}}
}

// findings converts findings of package doctor.
func findings(in []doctor.Finding) []Finding {
	var out []Finding
	for _, f := range in {
		text := f.Message
		if f.Device != "" && !strings.Contains(text, f.Device) {
			text = "GPU " + f.Device + ": " + text
		}
		out = append(out, Finding{OK: f.Result == doctor.Pass, Skip: f.Result == doctor.Skip, Message: text, Fix: f.Fix})
	}

	return out
}
