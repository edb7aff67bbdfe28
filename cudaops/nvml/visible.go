package nvml

import (
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
