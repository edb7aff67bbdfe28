package ops

import (
	"fmt"
	"os"
	"strings"

	"aicplan/cudaops/cuda"
)

// OrderByPCI makes the driver number devices like NVML and nvidia-smi. It must be called before the
// driver is initialized.
func OrderByPCI() error { return os.Setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID") }

// Find returns the device with the UUID, or the device with the index in PCI order if uuid is
// empty.
func Find(api cuda.Driver, index int, uuid string) (cuda.Device, error) {
	n, err := api.Count()
	if err != nil {
		return 0, err
	}

	var have []string
	for i := range n {
		info, err := api.Info(cuda.Device(i))
		if err != nil {
			return 0, err
		}

		if uuid != "" && strings.EqualFold(info.UUID, uuid) || uuid == "" && i == index {
			return cuda.Device(i), nil
		}

		have = append(have, fmt.Sprintf("%d: %s %s (%s)", i, info.Name, info.UUID, info.PCI))
	}

	want := fmt.Sprintf("device %d", index)
	if uuid != "" {
		want = "device " + uuid
	}

	if len(have) == 0 {
		return 0, fmt.Errorf("%s: the driver shows no GPU to this process (CUDA_VISIBLE_DEVICES=%q)", want,
			os.Getenv("CUDA_VISIBLE_DEVICES"))
	}

	return 0, fmt.Errorf("%s does not exist; the driver shows %s", want, strings.Join(have, ", "))
}

// OpenOptions configure Open.
type OpenOptions struct {
	Index int
	UUID  string
	Arena int64 // bytes; 0 means ArenaBytes of the free memory
}

// Open opens the driver, a device and the libraries. The calling thread must be locked; the
// device's context is current on it afterwards. Missing cuBLASLt or NVRTC is not an error, because
// only some ops need them.
func Open(o OpenOptions) (*Device, error) {
	if err := OrderByPCI(); err != nil {
		return nil, err
	}

	api, err := cuda.OpenDriver()
	if err != nil {
		return nil, err
	}

	version, err := api.Version()
	if err != nil {
		return nil, err
	}

	lib := Libraries{Driver: api}
	if rtc, err := cuda.OpenCompiler(version); err != nil {
		lib.RTCErr = err
	} else {
		lib.RTC = rtc
	}

	dev, err := Find(api, o.Index, o.UUID)
	if err != nil {
		return nil, err
	}

	d, err := NewDevice(lib, dev, o)
	if err != nil {
		return nil, err
	}

	// The library uses the context that is current when it is opened.
	if lt, err := cuda.OpenBLAS(version); err != nil {
		d.Lib.LtErr = err
	} else {
		d.Lib.Lt = lt
	}

	return d, nil
}
