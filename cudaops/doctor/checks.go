// Package doctor reports what a machine's GPUs can do and whether they are fit for measuring. It implements
// the checks of preflight stages and the doctor command.
package doctor

import (
	"errors"
	"fmt"
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
	Value   string `json:"value,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Fix     string `json:"fix,omitempty"` // what the user can do
}

// Node is the subject of the checks. If NVML is nil, NVMLErr is the reason.
type Node struct {
	NVML    nvml.API
	NVMLErr error

	// Devices are the indices of the devices to check, in PCI order. Nil means all.
	Devices []int

	// Own reports whether a process belongs to this run. Nil means no process does.
	Own func(pid int) bool

	// ProcessName returns the name of a process for messages. It may be nil.
	ProcessName func(pid int) string

	// Root is true if settings may be changed.
	Root bool
}

// devices returns the devices to check. The findings explain missing devices.
func (n *Node) devices(check string) ([]nvml.Device, []Finding) {
	if n.NVML == nil {
		why := errors.New("the management library was not opened")
		if n.NVMLErr != nil {
			why = n.NVMLErr
		}
		return nil, []Finding{{Check: check, Result: Skip, Message: "cannot be judged: " + why.Error()}}
	}

	all, err := n.NVML.Devices()
	if err != nil {
		return nil, []Finding{{Check: check, Result: Skip, Message: "cannot be judged: " + err.Error()}}
	}

	if n.Devices == nil {
		if len(all) == 0 {
			return nil, []Finding{{Check: check, Result: Fail, Message: "the driver shows no GPU"}}
		}
		return all, nil
	}

	var out []nvml.Device
	var missing []Finding
	for _, i := range n.Devices {
		if i < 0 || i >= len(all) {
			missing = append(missing, Finding{Check: check, Result: Fail,
				Message: fmt.Sprintf("there is no device %d; the driver shows %d", i, len(all))})
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

// each runs a check on every device. An error of the check gives a finding with the result Skip.
func (n *Node) each(check string, judge func(nvml.Device) (Finding, error)) []Finding {
	devices, out := n.devices(check)
	for _, d := range devices {
		f, err := judge(d)
		if err != nil {
			f = Finding{Result: Skip, Message: "cannot be judged: " + err.Error()}
		}
		f.Check, f.Device = check, label(d)
		out = append(out, f)
	}
	return out
}

// Exclusive passes if no other compute process uses the devices.
func (n *Node) Exclusive() []Finding {
	return n.each("exclusive", func(d nvml.Device) (Finding, error) {
		procs, err := d.Processes()
		if err != nil {
			return Finding{}, err
		}

		var foreign []string
		for _, p := range procs {
			if n.Own != nil && n.Own(p.PID) {
				continue
			}
			text := strconv.Itoa(p.PID)
			if n.ProcessName != nil {
				if name := n.ProcessName(p.PID); name != "" {
					text += " (" + name + ")"
				}
			}
			if p.Memory > 0 {
				text += fmt.Sprintf(" with %.1f GiB", float64(p.Memory)/(1<<30))
			}
			foreign = append(foreign, text)
		}

		if len(foreign) == 0 {
			return Finding{Result: Pass, Message: "no foreign compute process", Value: "0", Limit: "0"}, nil
		}

		return Finding{
			Result: Fail, Value: strconv.Itoa(len(foreign)), Limit: "0",
			Message: "foreign compute processes: " + strings.Join(foreign, ", "),
			Fix:     "end them or choose other devices: other work on the device changes what is measured",
		}, nil
	})
}

// Persistence passes if persistence mode is on. If apply is true and the user is root, it is turned on.
func (n *Node) Persistence(apply bool) []Finding {
	return n.each("persistence", func(d nvml.Device) (Finding, error) {
		on, err := d.Persistence()
		if err != nil {
			return Finding{}, err
		}
		if on {
			return Finding{Result: Pass, Message: "persistence mode is on", Value: "on", Limit: "on"}, nil
		}
		command := fmt.Sprintf("sudo nvidia-smi -i %d -pm 1", d.Identity().Index)
		f := Finding{
			Result: Fail, Value: "off", Limit: "on", Fix: command,
			Message: "persistence mode is off: the driver may unload between workers and every start takes seconds longer",
		}
		return n.change(f, apply, command, func() error { return d.SetPersistence(true) },
			"persistence mode was turned on"), nil
	})
}

// change applies a setting if requested and permitted, and returns the resulting finding.
func (n *Node) change(f Finding, apply bool, command string, do func() error, done string) Finding {
	switch {
	case !apply:
		return f
	case !n.Root:
		f.Message += "; it is not changed because this is not root"
		return f
	}

	if err := do(); err != nil {
		f.Message += "; changing it failed: " + err.Error()
		return f
	}

	return Finding{Result: Pass, Message: done + " (" + command + ")", Value: f.Limit, Limit: f.Limit}
}

// Clocks passes if the SM clock is at its maximum. It also fails on devices that reduce their clock when
// idle, because their lock is not visible. The message contains the command to lock the clocks. If apply is
// true and the user is root, the clocks are locked at the maximum.
func (n *Node) Clocks(apply bool) []Finding {
	return n.each("clocks", func(d nvml.Device) (Finding, error) {
		c, err := d.Clocks()
		if err != nil {
			return Finding{}, err
		}

		value, limit := fmt.Sprintf("%d MHz", c.SM), fmt.Sprintf("%d MHz", c.MaxSM)
		if c.SM >= c.MaxSM {
			return Finding{Result: Pass, Message: "the SM clock is at its maximum", Value: value, Limit: limit}, nil
		}

		command := fmt.Sprintf("sudo nvidia-smi -i %d --lock-gpu-clocks=%d,%d", d.Identity().Index, c.MaxSM, c.MaxSM)
		why := ""
		if r, err := d.Reasons(); err == nil {
			why = "; reasons now: " + r.String()
		}

		f := Finding{
			Result: Fail, Value: value, Limit: limit, Fix: command,
			Message: fmt.Sprintf("the SM clock is %s of %s%s", value, limit, why),
		}

		return n.change(f, apply, command, func() error { return d.LockClocks(c.MaxSM, c.MaxSM) },
			"the clocks were locked"), nil
	})
}

// Throttle passes if no harmful reason for a reduced clock is active: heat, power brake or hardware
// slowdown.
func (n *Node) Throttle() []Finding {
	return n.each("throttle", func(d nvml.Device) (Finding, error) {
		r, err := d.Reasons()
		if err != nil {
			return Finding{}, err
		}
		if bad := r & nvml.Harmful; bad != 0 {
			return Finding{
				Result: Fail, Value: bad.String(), Limit: "none", Message: "the device slows down: " + bad.String(),
				Fix: "let it cool, check fans and power supply; rows measured now would be too slow",
			}, nil
		}
		return Finding{Result: Pass, Message: "nothing slows the device down", Value: (r &^ nvml.Idle).String(),
			Limit: "none"}, nil
	})
}

// DefaultMaxTemperature is in degrees Celsius, well below the throttling temperature of GPUs.
const DefaultMaxTemperature = 75

// Temperature passes if the temperature is at most the limit in degrees Celsius.
func (n *Node) Temperature(limit int) []Finding {
	return n.each("temperature", func(d nvml.Device) (Finding, error) {
		t, err := d.Temperature()
		if err != nil {
			return Finding{}, err
		}
		f := Finding{Result: Pass, Value: fmt.Sprintf("%d C", t.GPU), Limit: fmt.Sprintf("%d C", limit),
			Message: fmt.Sprintf("%d C", t.GPU)}
		if t.GPU > limit {
			f.Result, f.Message = Fail, fmt.Sprintf("%d C, more than %d C, before any work", t.GPU, limit)
			f.Fix = "wait until the device has cooled, or look for what heats it"
		}
		return f, nil
	})
}

// ECC passes if error correction is in the desired state and there were no uncorrectable errors.
func (n *Node) ECC(want bool) []Finding {
	word := map[bool]string{true: "on", false: "off"}
	return n.each("ecc", func(d nvml.Device) (Finding, error) {
		e, err := d.ECC()
		if err != nil {
			return Finding{}, err
		}

		f := Finding{Result: Pass, Value: word[e.Enabled], Limit: word[want], Message: "error correction is " +
			word[e.Enabled]}
		switch {
		case e.Uncorrected > 0:
			f.Result, f.Message = Fail, fmt.Sprintf("%d uncorrectable memory errors since the driver was loaded",
				e.Uncorrected)
			f.Fix = "reset or replace the device before measuring on it"
		case e.Enabled != want:
			f.Result = Fail
			f.Message += ", and it costs bandwidth on some devices: published rows have it " + word[want]
			f.Fix = fmt.Sprintf("sudo nvidia-smi -i %d -e %d, then reboot", d.Identity().Index,
				map[bool]int{true: 1}[want])
		}

		return f, nil
	})
}

// MIG passes if the devices are not partitioned.
func (n *Node) MIG() []Finding {
	return n.each("mig", func(d nvml.Device) (Finding, error) {
		on, err := d.MIG()
		if err != nil {
			return Finding{}, err
		}
		if on {
			return Finding{
				Result: Fail, Value: "on", Limit: "off",
				Message: "the device is split into MIG instances: rows would be about a part of it",
				Fix:     fmt.Sprintf("sudo nvidia-smi -i %d -mig 0", d.Identity().Index),
			}, nil
		}
		return Finding{Result: Pass, Message: "the device is not split", Value: "off", Limit: "off"}, nil
	})
}
