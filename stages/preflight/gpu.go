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

// GPUChecks look at the GPUs through the driver's management library; open
// makes the connection, anew for each check, so that what they see is now.
func GPUChecks(open func() (nvml.API, error)) []Check {
	on := func(look func(*doctor.Node, Target) []doctor.Finding) func(context.Context, Target) []Finding {
		return func(_ context.Context, t Target) []Finding {
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
			return findings(look(doctor.LocalNode(api, err, devices), t))
		}
	}

	attribute := func(names ...string) []hcl.AttributeSchema {
		var out []hcl.AttributeSchema
		for _, n := range names {
			out = append(out, hcl.AttributeSchema{Name: n})
		}
		return out
	}

	return []Check{
		{Name: "gpus", Summary: "number and name of the GPUs, against the system",
			Schema: attribute("count", "min", "name"), Look: on(lookGPUs)},
		{Name: "exclusive", Summary: "no compute process of somebody else on the GPUs",
			Look: on(func(n *doctor.Node, _ Target) []doctor.Finding { return n.Exclusive() })},
		{Name: "persistence", Summary: "the driver stays loaded between processes", Schema: attribute("apply"),
			Look: on(func(n *doctor.Node, t Target) []doctor.Finding { return n.Persistence(t.Bool("apply")) })},
		{Name: "clocks", Summary: "SM clocks locked or at their maximum", Schema: attribute("apply"),
			Look: on(func(n *doctor.Node, t Target) []doctor.Finding { return n.Clocks(t.Bool("apply")) })},
		{Name: "throttle", Summary: "no thermal or power slowdown at this moment",
			Look: on(func(n *doctor.Node, _ Target) []doctor.Finding { return n.Throttle() })},
		{Name: "temperature", Summary: "GPUs are below a temperature", Schema: attribute("max_celsius"),
			Look: on(func(n *doctor.Node, t Target) []doctor.Finding {
				return n.Temperature(int(t.Number("max_celsius", doctor.DefaultMaxTemperature)))
			})},
		{Name: "ecc", Summary: "ECC is on and has no uncorrectable errors", Schema: attribute("enabled"),
			Look: on(func(n *doctor.Node, t Target) []doctor.Finding {
				_, given := t.Args["enabled"]
				return n.ECC(!given || t.Bool("enabled"))
			})},
		{Name: "mig", Summary: "GPUs are whole, not partitioned",
			Look: on(func(n *doctor.Node, _ Target) []doctor.Finding { return n.MIG() })},
	}
}

// visible are the devices that CUDA_VISIBLE_DEVICES leaves to workers; nil where
// it hides none, or all: then whoever opens a device says what is wrong.
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

// lookGPUs takes the device's name from the system where the check has none.
func lookGPUs(n *doctor.Node, t Target) []doctor.Finding {
	out := n.GPUs(int(t.Number("count", 0)), int(t.Number("min", 0)), t.Text("name", ""))
	if t.System == nil || t.Args["name"].IsKnown() && !t.Args["name"].IsNull() {
		return out
	}

	if n.NVML == nil {
		return out
	}

	devices, err := n.NVML.Devices()
	if err != nil {
		return out // said by GPUs already
	}

	for _, d := range devices {
		name := d.Identity().Name
		if match, known := t.System.MatchesDevice(name); known && !match {
			f := doctor.Finding{Check: "gpus", Result: doctor.Fail, Device: name,
				Message: fmt.Sprintf("the device is a %s, but the plan is for %s", name, t.System.Name)}
			if fit, ok := systems.ForDevice(name); ok {
				f.Fix = "plan for system " + fit
			}
			return append(out, f)
		}
	}

	return out
}

// LibraryChecks look for the CUDA libraries that runtimes open.
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
					"; which libraries are there only they can tell"}}
			}
			return findings(doctor.LibraryFindings(doctor.LocalLibraries(), libraries...))
		},
	}}
}

// findings brings the doctor's words into a preflight's.
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
