package nvml

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// Visible returns the devices selected by a value of CUDA_VISIBLE_DEVICES, in its order. Like the CUDA
// runtime, it accepts indices, UUIDs and prefixes of UUIDs, and ignores an invalid entry and all entries
// after it.
func Visible(all []Identity, value string) []Identity {
	var out []Identity
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		at := -1
		if n, err := strconv.Atoi(entry); err == nil {
			at = slices.IndexFunc(all, func(d Identity) bool { return d.Index == n })
		} else if strings.HasPrefix(entry, "GPU-") {
			at = slices.IndexFunc(all, func(d Identity) bool { return strings.HasPrefix(d.UUID, entry) })
		}
		if at < 0 {
			return out
		}
		out = append(out, all[at])
	}

	return out
}

// VisibleDevices is the environment variable that limits a process to some GPUs.
const VisibleDevices = "CUDA_VISIBLE_DEVICES"

// Hidden returns the devices that CUDA_VISIBLE_DEVICES hides. It returns nil if the variable is not set
// or if no device remains.
func Hidden(all []Identity) []Identity {
	value, set := os.LookupEnv(VisibleDevices)
	if !set {
		return nil
	}
	left := Visible(all, value)
	if len(left) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(d Identity) bool { return slices.Contains(left, d) })
}

// Shown returns the indices of the devices that CUDA_VISIBLE_DEVICES does not hide. It returns nil if it hides none,
// or all, which is reported when a device is opened, or if the devices cannot be read.
func Shown(api API) []int {
	all, _ := Identities(api)
	hidden := Hidden(all)
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

// Identities returns the identities of all devices.
func Identities(api API) ([]Identity, error) {
	devices, err := api.Devices()
	if err != nil {
		return nil, err
	}

	out := make([]Identity, len(devices))
	for i, d := range devices {
		out[i] = d.Identity()
	}
	return out, nil
}
