package runtimes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
)

// procGPUs is the folder in which the NVIDIA kernel driver lists its GPUs, one folder per bus address.
const procGPUs = "/proc/driver/nvidia/gpus"

// Devices returns the GPUs of this machine in PCI bus order, with the names from the kernel driver. The
// list is empty without a driver. No device is opened. If CUDA_VISIBLE_DEVICES is set, it restricts the
// list.
func Devices() ([]Device, error) {
	all, err := devicesIn(procGPUs)
	if err != nil {
		return nil, err
	}
	value, set := os.LookupEnv(nvml.VisibleDevices)
	if !set {
		return all, nil
	}
	return nvml.Visible(all, value), nil
}

// procDriver is the file with the version of the NVIDIA kernel driver.
const procDriver = "/proc/driver/nvidia/version"

// Driver returns the version of the NVIDIA kernel driver, such as 580.159.04, or "" without a driver. No
// device is opened.
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
			continue // this container has no access to the GPU
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
				// The driver writes question marks for a GPU that it has not initialized.
				if d.UUID = strings.TrimSpace(value); strings.Contains(d.UUID, "?") {
					d.UUID = ""
				}
			}
		}

		f.Close()
		out = append(out, d)
	}

	return out, nil
}

// cleanPatience is how long the memory of a dead worker may take to be freed.
const cleanPatience = 30 * time.Second

// CleanGPU returns a PoolSpec.CleanDevice function that waits until a GPU's memory is free, so that an
// out-of-memory error is not caused by other processes. Machines without a management library count as
// clean.
func CleanGPU(open func() (nvml.API, error)) func(ctx context.Context, s worker.Slot) error {
	return func(ctx context.Context, s worker.Slot) error {
		if s.Device < 0 {
			return nil
		}

		api, err := open()
		if err != nil {
			return nil
		}

		d, err := deviceOf(api, s)
		if err != nil {
			return err
		}

		return nvml.WaitFree(ctx, d, cleanPatience)
	}
}

// deviceOf returns the slot's device, by UUID if it is known and by index otherwise.
func deviceOf(api nvml.API, s worker.Slot) (nvml.Device, error) {
	if uuid := s.Spec.Init.UUID; uuid != "" {
		return nvml.Find(api, uuid)
	}

	all, err := api.Devices()
	if err != nil {
		return nil, err
	}

	if s.Device >= len(all) {
		return nil, fmt.Errorf("there is no device %d; the driver lists %d", s.Device, len(all))
	}

	return all[s.Device], nil
}
