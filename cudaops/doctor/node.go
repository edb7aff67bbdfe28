package doctor

import (
	"fmt"
	"strings"
)

// GPUs passes if the number of devices is count (0 means any but none) and at least least, and their names
// contain name ("" means any).
func (n *Node) GPUs(count, least int, name string) []Finding {
	const check = "gpus"
	devices, missing := n.devices(check)
	if len(missing) > 0 {
		return missing
	}

	if len(devices) == 0 {
		return []Finding{{Check: check, Result: Fail, Message: "no device was asked for",
			Fix: "name the runtime's devices, or leave devices away for all"}}
	}

	value := fmt.Sprintf("%d x %s", len(devices), devices[0].Identity().Name)
	f := Finding{Check: check, Result: Pass, Value: value, Message: value}
	var limits []string
	if count > 0 {
		limits = append(limits, fmt.Sprintf("%d devices", count))
		if len(devices) != count {
			f.Result, f.Message = Fail, fmt.Sprintf("%d devices, the plan wants %d", len(devices), count)
			f.Fix = "check CUDA_VISIBLE_DEVICES, the container's --gpus and the runtime's devices"
		}
	}

	if least > 0 {
		limits = append(limits, fmt.Sprintf("at least %d devices", least))
		if len(devices) < least {
			f.Result, f.Message = Fail, fmt.Sprintf("%d devices, the plan wants at least %d", len(devices), least)
			f.Fix = "plan for fewer GPUs, or check CUDA_VISIBLE_DEVICES, the container's --gpus and the runtime's devices"
		}
	}

	if name != "" {
		limits = append(limits, "named "+name)
		for _, d := range devices {
			if !strings.Contains(squash(d.Identity().Name), squash(name)) {
				f.Result, f.Message = Fail, fmt.Sprintf("device %s is not a %s", label(d), name)
				f.Fix = "choose the system that the machine is"
				break
			}
		}
	}

	f.Limit = strings.Join(limits, ", ")
	return []Finding{f}
}

// squash keeps only letters and digits, in lower case, so that "NVIDIA H200" contains "h200".
func squash(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, s)
}

// LibraryFindings returns a finding for each library in need, which passes if the library could be opened.
func LibraryFindings(libs []Library, need ...string) []Finding {
	var out []Finding
	for _, want := range need {
		f := Finding{Check: "libraries", Result: Fail,
			Message: fmt.Sprintf("this program knows no library %q; it knows %s", want, names(libs))}
		for _, l := range libs {
			if l.Name != want {
				continue
			}
			f = Finding{Check: "libraries", Result: Pass, Value: l.Version,
				Message: fmt.Sprintf("%s %s, %s", l.Name, l.Version, l.Path)}
			if l.Error != "" {
				f.Result, f.Value, f.Message = Fail, "", l.Error
				if len(l.Searched) == 0 { // else the message names what to install
					f.Fix = "replace it, or name the folder of another one in AICPLAN_LIBRARY_PATH"
				}
			}
		}
		out = append(out, f)
	}

	return out
}

func names(libs []Library) string {
	var out []string
	for _, l := range libs {
		out = append(out, l.Name)
	}
	return strings.Join(out, ", ")
}
