package runtimes

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// procGPUs is where the NVIDIA kernel driver lists its GPUs, one folder for
// each, named by bus address.
const procGPUs = "/proc/driver/nvidia/gpus"

// Devices lists the GPUs of this machine in PCI bus order, as the kernel driver
// names them; none where there is no driver. It touches no device.
// CUDA_VISIBLE_DEVICES, when set, restricts the list.
func Devices() ([]Device, error) {
	all, err := devicesIn(procGPUs)
	if err != nil {
		return nil, err
	}
	return Visible(all), nil
}

// Visible are those of all devices that CUDA_VISIBLE_DEVICES leaves; all where it
// is not set.
func Visible(all []Device) []Device {
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	if !set {
		return all
	}
	return restrict(all, visible)
}

// procDriver is where the NVIDIA kernel driver says its version.
const procDriver = "/proc/driver/nvidia/version"

// Driver is the version of the NVIDIA kernel driver, as 580.159.04; "" where
// there is none. It touches no device.
func Driver() string {
	text, err := os.ReadFile(procDriver)
	if err != nil {
		return ""
	}
	return driverVersion(string(text))
}

var driverWord = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s`)

func driverVersion(text string) string {
	if m := driverWord.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func devicesIn(dir string) ([]Device, error) {
	entries, err := os.ReadDir(dir) // sorted by name, which is the bus address
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the GPUs: %w", err)
	}
	var out []Device
	for _, e := range entries {
		d := Device{Index: len(out)}
		f, err := os.Open(filepath.Join(dir, e.Name(), "information"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // a GPU that this container does not get
		}
		if err != nil {
			return nil, fmt.Errorf("list the GPUs: %w", err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			key, value, _ := strings.Cut(s.Text(), ":")
			switch strings.TrimSpace(key) {
			case "Model":
				d.Name = strings.TrimSpace(value)
			case "GPU UUID":
				d.UUID = strings.TrimSpace(value)
			}
		}
		f.Close()
		out = append(out, d)
	}
	return out, nil
}

// restrict applies CUDA_VISIBLE_DEVICES as the CUDA runtime reads it: a list
// of indices or of UUIDs (or their beginnings), of which an invalid entry hides
// itself and all behind it.
func restrict(all []Device, visible string) []Device {
	var out []Device
	for entry := range strings.SplitSeq(visible, ",") {
		entry = strings.TrimSpace(entry)
		at := -1
		if n, err := strconv.Atoi(entry); err == nil {
			at = slices.IndexFunc(all, func(d Device) bool { return d.Index == n })
		} else if strings.HasPrefix(entry, "GPU-") {
			at = slices.IndexFunc(all, func(d Device) bool { return strings.HasPrefix(d.UUID, entry) })
		}
		if at < 0 {
			return out
		}
		out = append(out, all[at])
	}
	return out
}
