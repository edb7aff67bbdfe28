// Package doctor reports what a machine can measure and whether it is fit for measuring. It implements the
// checks of preflight stages and the doctor command.
package doctor

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"aicplan/cudaops/nvml"
)

// Results of a check.
const (
	Pass = "pass"
	Fail = "fail"
	// Warn is a suboptimal setting on a machine that is fit nevertheless.
	Warn = "warn"
	Skip = "skip" // could not be determined
)

// Finding is the result of a check on one device or on the machine.
type Finding struct {
	Check  string `json:"check"`
	Device string `json:"device,omitempty"` // "0: NVIDIA H200", or "" for the machine
	Result string `json:"result"`

	// Message describes the result and its consequence in one line.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"` // what the user can do
}

func pass(format string, args ...any) Finding {
	return Finding{Result: Pass, Message: fmt.Sprintf(format, args...)}
}

func fail(fix, format string, args ...any) Finding {
	return Finding{Result: Fail, Message: fmt.Sprintf(format, args...), Fix: fix}
}

func skip(err error) Finding {
	return Finding{Result: Skip, Message: "cannot be judged: " + err.Error()}
}

// Check is a check of a machine.
type Check struct {
	Name, Summary string
	Attributes    []Attribute
	// Host is true if the check needs no GPU.
	Host bool
	// Advice is true if a machine that fails the check is fit for measuring nevertheless.
	Advice bool
	look   func(n *Node, l Limits) []Finding
}

// Attribute is a limit of a check. Default is a float64 or a string.
type Attribute struct {
	Name    string
	Default any
}

// Limits are the values of a check's attributes.
type Limits map[string]any

func (l Limits) number(name string) float64 {
	f, _ := l[name].(float64)
	return f
}

// Run runs the check. Attributes without a limit have their default.
func (c *Check) Run(n *Node, l Limits) []Finding {
	all := Limits{}
	for _, a := range c.Attributes {
		all[a.Name] = a.Default
	}
	maps.Copy(all, l)

	out := c.look(n, all)
	for i := range out {
		out[i].Check = c.Name
	}
	return out
}

// Checks returns the checks of the doctor command and of preflights, in order.
func Checks() []Check {
	return []Check{
		{
			Name: "gpus", Summary: "number and name of the GPUs, compared with the system", look: lookGPUs,
			Attributes: []Attribute{
				// count is the exact number of GPUs. The default is any.
				{Name: "count", Default: 0.0},
				// min is the smallest accepted number of GPUs.
				{Name: "min", Default: 0.0},
				// name (string) is a word in the device's name. The default is what the system requires.
				{Name: "name", Default: ""},
			},
		},
		{Name: "exclusive", Summary: "no compute process of other programs on the GPUs", look: each(exclusive)},
		{Name: "persistence", Summary: "the driver stays loaded between processes", Advice: true, look: each(persistence)},
		// Measurements wait for the clock, so unlocked clocks are only not optimal.
		{Name: "clocks", Summary: "SM clocks locked or at their maximum", Advice: true, look: each(clocks)},
		{Name: "throttle", Summary: "no thermal or power slowdown at this moment", look: each(throttle)},
		{
			Name: "temperature", Summary: "GPUs are below a temperature", look: each(temperature),
			Attributes: []Attribute{
				// max_celsius (number, °C) is the limit. The default is 75.
				{Name: "max_celsius", Default: 75.0},
			},
		},
		{Name: "ecc", Summary: "ECC is on and has no uncorrectable errors", look: each(ecc)},
		{Name: "mig", Summary: "GPUs are whole, not partitioned", look: each(mig)},
		{
			Name: "disk", Summary: "free space for state and exports, and whether they are on a network file system",
			Attributes: []Attribute{
				// min_gb (number, GB) is the smallest accepted amount. The default is 1.
				{Name: "min_gb", Default: 1.0},
			},
			Host: true, Advice: true, look: lookDisk,
		},
		{
			Name: "memory", Summary: "memory that is free on the host",
			Attributes: []Attribute{
				// min_gb (number, GB) is the smallest accepted amount. The default is 1.
				{Name: "min_gb", Default: 1.0},
			},
			Host: true, Advice: true, look: lookMemory,
		},
		{
			Name: "shm", Summary: "room in /dev/shm, which NCCL and the frameworks use",
			Attributes: []Attribute{
				// min_gb (number, GB) is the smallest accepted amount. The default is 1.
				{Name: "min_gb", Default: 1.0},
			},
			Host: true, Advice: true, look: lookShm,
		},
		{
			Name: "load", Summary: "whether other work keeps the processor busy",
			Attributes: []Attribute{
				// max_per_core (number) is the largest accepted load average per core. The default is 0.5.
				{Name: "max_per_core", Default: 0.5},
			},
			Host: true, Advice: true, look: lookLoad,
		},
		{
			Name: "writable", Summary: "whether the state and output folders can be written",
			Host: true, Advice: true, look: lookWritable,
		},
	}
}

// Node is the subject of the checks. NVML may only be used if NVMLErr is nil.
type Node struct {
	NVML    nvml.API
	NVMLErr error

	// Devices are the indices of the devices to check, in PCI order. Nil means all.
	Devices []int

	// Folders are the folders that a run writes to.
	Folders []string
}

// devices returns the devices to check. The findings explain missing devices.
func (n *Node) devices() ([]nvml.Device, []Finding) {
	if n.NVMLErr != nil {
		return nil, []Finding{skip(n.NVMLErr)}
	}

	all, err := n.NVML.Devices()
	switch {
	case err != nil:
		return nil, []Finding{skip(err)}
	case n.Devices == nil && len(all) == 0:
		return nil, []Finding{fail("", "the driver shows no GPU")}
	case n.Devices == nil:
		return all, nil
	}

	var out []nvml.Device
	var missing []Finding
	for _, i := range n.Devices {
		if i < 0 || i >= len(all) {
			missing = append(missing, fail("", "there is no device %d; the driver shows %d", i, len(all)))
			continue
		}
		out = append(out, all[i])
	}

	return out, missing
}

func label(d nvml.Device) string {
	id := d.Identity()
	return fmt.Sprintf("%d: %s", id.Index, id.Name)
}

// each returns a check that judges every device. An error gives a finding with the result Skip.
func each(judge func(d nvml.Device, l Limits) (Finding, error)) func(*Node, Limits) []Finding {
	return func(n *Node, l Limits) []Finding {
		devices, out := n.devices()
		for _, d := range devices {
			f, err := judge(d, l)
			if err != nil {
				f = skip(err)
			}
			f.Device = label(d)
			out = append(out, f)
		}
		return out
	}
}

func lookGPUs(n *Node, l Limits) []Finding {
	devices, missing := n.devices()
	if len(missing) > 0 {
		return missing
	}
	if len(devices) == 0 {
		return []Finding{fail("name the runtime's devices, or remove devices to use all", "no device was asked for")}
	}

	const elsewhere = "check CUDA_VISIBLE_DEVICES, the container's --gpus and the runtime's devices"
	if count := int(l.number("count")); count > 0 && len(devices) != count {
		return []Finding{fail(elsewhere, "%d devices, the plan wants %d", len(devices), count)}
	}
	if least := int(l.number("min")); len(devices) < least {
		return []Finding{
			fail("plan for fewer GPUs, or "+elsewhere, "%d devices, the plan wants at least %d", len(devices), least),
		}
	}

	name, _ := l["name"].(string)
	for _, d := range devices {
		if !strings.Contains(squash(d.Identity().Name), squash(name)) {
			return []Finding{fail("choose the system that the machine is", "device %s is not a %s", label(d), name)}
		}
	}

	return []Finding{pass("%d x %s", len(devices), devices[0].Identity().Name)}
}

// squash keeps only letters and digits, in lower case, so that "NVIDIA H200" contains "h200".
func squash(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

func exclusive(d nvml.Device, _ Limits) (Finding, error) {
	procs, err := d.Processes()
	var foreign []string
	for _, p := range procs {
		if p.PID == os.Getpid() {
			continue
		}

		text := strconv.Itoa(p.PID)
		if name := processName(p.PID); name != "" {
			text += " (" + name + ")"
		}
		if p.Memory > 0 {
			text += fmt.Sprintf(" with %.1f GiB", float64(p.Memory)/(1<<30))
		}
		foreign = append(foreign, text)
	}

	if len(foreign) > 0 {
		return fail("end them or choose other devices: other work on the device changes what is measured",
			"foreign compute processes: %s", strings.Join(foreign, ", ")), err
	}
	return pass("no foreign compute process"), err
}

func persistence(d nvml.Device, _ Limits) (Finding, error) {
	on, err := d.Persistence()
	if !on {
		return fail(fmt.Sprintf("sudo nvidia-smi -i %d -pm 1", d.Identity().Index),
			"persistence mode is off: the driver may unload between workers and every start takes seconds longer"), err
	}
	return pass("persistence mode is on"), err
}

// clocks also fails on devices that reduce their clock when idle, because their lock is not visible.
func clocks(d nvml.Device, _ Limits) (Finding, error) {
	c, err := d.Clocks()
	if err != nil || c.SM >= c.MaxSM {
		return pass("the SM clock is at its maximum"), err
	}

	why := ""
	if r, err := d.Reasons(); err == nil {
		why = "; reasons now: " + r.String()
	}
	return fail(fmt.Sprintf("sudo nvidia-smi -i %d --lock-gpu-clocks=%d,%d", d.Identity().Index, c.MaxSM, c.MaxSM),
		"the SM clock is %d MHz of %d MHz%s", c.SM, c.MaxSM, why), nil
}

func throttle(d nvml.Device, _ Limits) (Finding, error) {
	r, err := d.Reasons()
	if bad := r & nvml.Harmful; bad != 0 {
		return fail("let it cool, check fans and power supply; rows measured now would be too slow",
			"the device slows down: %s", bad), err
	}
	return pass("nothing slows the device down"), err
}

func temperature(d nvml.Device, l Limits) (Finding, error) {
	t, err := d.Temperature()
	if limit := int(l.number("max_celsius")); t.GPU > limit {
		return fail("wait until the device has cooled, or look for what heats it",
			"%d C, more than %d C, before any work", t.GPU, limit), err
	}
	return pass("%d C", t.GPU), err
}

func ecc(d nvml.Device, _ Limits) (Finding, error) {
	e, err := d.ECC()
	switch {
	case e.Uncorrected > 0:
		return fail("reset or replace the device before measuring on it",
			"%d uncorrectable memory errors since the driver was loaded", e.Uncorrected), err
	case !e.Enabled:
		return fail(fmt.Sprintf("sudo nvidia-smi -i %d -e 1, then reboot", d.Identity().Index),
			"error correction is off, and it costs bandwidth on some devices: published rows have it on"), err
	}
	return pass("error correction is on"), err
}

func mig(d nvml.Device, _ Limits) (Finding, error) {
	on, err := d.MIG()
	if on {
		return fail(fmt.Sprintf("sudo nvidia-smi -i %d -mig 0", d.Identity().Index),
			"the device is split into MIG instances: rows would be about a part of it"), err
	}
	return pass("the device is not split"), err
}
