package nvml_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
)

func TestReasons(t *testing.T) {
	for r, want := range map[nvml.Reasons]string{
		0:                               "none",
		nvml.PowerCap:                   "power cap",
		nvml.Idle | nvml.HwThermal:      "idle, hardware thermal slowdown",
		nvml.PowerCap | 1<<20:           "power cap, unknown 0x100000",
		nvml.Harmful &^ nvml.PowerBrake: "hardware slowdown, software thermal slowdown, hardware thermal slowdown",
	} {
		if got := r.String(); got != want {
			t.Errorf("%#x reads %q, want %q", uint64(r), got, want)
		}
	}
	if nvml.Harmful&nvml.PowerCap != 0 {
		t.Error("the power cap is normal under load")
	}
}

func TestFind(t *testing.T) {
	api := &cudatest.NVML{GPUs: []*cudatest.GPU{cudatest.H200(0), cudatest.H200(1)}}
	d, err := nvml.Find(api, "gpu-00000000-0000-0000-0000-000000000001")
	if err != nil || d.Identity().Index != 1 {
		t.Errorf("found %v, %v", d, err)
	}
	if _, err := nvml.Find(api, "GPU-other"); err == nil {
		t.Error("a device that is not there was found")
	}
}

func TestFakeEnergy(t *testing.T) {
	var now time.Duration
	d := cudatest.H200(0)
	d.Now = func() time.Duration { return now }
	now = 1050 * time.Millisecond
	if e, _ := d.Energy(); e != 110 {
		t.Errorf("energy %v J after 1.05 s in steps of 0.1 s at 110 W, want 110", e)
	}
}

// TestOpen needs no GPU. Without a driver, the error must explain what is missing.
func TestOpen(t *testing.T) {
	api, err := nvml.Open()
	if err == nil {
		if _, err := api.DriverVersion(); err != nil {
			t.Error(err)
		}
		return
	}
	if !errors.Is(err, nvml.ErrNotBuilt) && len(err.Error()) < 20 {
		t.Errorf("the error does not name what is missing: %v", err)
	}
	t.Log(err)
}

func TestShown(t *testing.T) {
	api := &cudatest.NVML{GPUs: []*cudatest.GPU{cudatest.H200(0), cudatest.H200(1)}}
	for value, want := range map[string][]int{
		"1": {1}, "GPU-00000000-0000-0000-0000-000000000000": {0}, "0,1": nil, "": nil, "7": nil,
	} {
		t.Setenv(nvml.VisibleDevices, value)
		if got := nvml.Shown(api); !slices.Equal(got, want) {
			t.Errorf("with %q the devices %v are shown, want %v", value, got, want)
		}
	}
}
