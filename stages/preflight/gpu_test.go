package preflight

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/nvml/nvmltest"
	"aicplan/engine/stage"
	"aicplan/systems"
)

func look(t *testing.T, name string, api *nvmltest.API, target Target) []Finding {
	t.Helper()
	checks := GPUChecks(func() (nvml.API, error) { return api, nil })
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %s", name)
	}
	return checks[i].Look(t.Context(), target)
}

func TestGPUChecksComplain(t *testing.T) {
	h200, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	b200, err := systems.Load("b200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(*nvmltest.Device)
		target     Target
		fix        string
	}{
		{"exclusive", "used by pid 4242", func(d *nvmltest.Device) { d.Procs = []nvml.Process{{PID: 4242, Memory: 1 << 30}} }, Target{}, "end these"},
		{"persistence", "off", func(d *nvmltest.Device) { d.Persist = false }, Target{}, "nvidia-smi -i 0 -pm 1"},
		{"clocks", "not locked", func(*nvmltest.Device) {}, Target{}, "nvidia-smi -i 0 -lgc 1980,1980"},
		{"throttle", "hardware thermal slowdown", func(d *nvmltest.Device) { d.Why = nvml.HwThermal }, Target{}, "cool"},
		{"temperature", "at 91 C", func(d *nvmltest.Device) { d.Temp.GPU = 91 }, Target{}, "cool"},
		{"ecc", "3 uncorrectable", func(d *nvmltest.Device) { d.Ecc = nvml.ECC{Enabled: true, Uncorrected: 3} }, Target{}, "drain"},
		{"mig", "partitioned", func(d *nvmltest.Device) { d.MigOn = true }, Target{}, "-mig 0"},
		{"gpu_memory", "free", func(d *nvmltest.Device) { d.Mem.Free = 1 << 30 }, Target{}, "end what uses it"},
		{"gpus", "the plan is for b200_sxm", func(*nvmltest.Device) {}, Target{System: b200}, "h200_sxm"},
		{"gpus", "1 GPUs, 4 asked for", func(*nvmltest.Device) {}, Target{System: h200, Args: map[string]cty.Value{"min": cty.NumberIntVal(4)}}, "larger"},
		{"driver", "at least 600 asked for", func(*nvmltest.Device) {}, Target{Args: map[string]cty.Value{"min": cty.StringVal("600")}}, "update"},
		{"mig", "none of the 1 GPUs", func(*nvmltest.Device) {}, Target{Runtime: &stage.Runtime{Devices: []int{3}}}, "devices"},
	} {
		d := nvmltest.H200(0)
		good := look(t, c.name, &nvmltest.API{Driver: "580.159.04", GPUs: []*nvmltest.Device{nvmltest.H200(0)}}, Target{System: h200})
		if c.name != "clocks" && (len(good) == 0 || !good[0].OK) {
			t.Errorf("%s complains about a healthy H200: %+v", c.name, good)
		}
		c.change(d)
		found := look(t, c.name, &nvmltest.API{Driver: "580.159.04", GPUs: []*nvmltest.Device{d}}, c.target)
		i := slices.IndexFunc(found, func(f Finding) bool { return !f.OK && !f.Skip })
		if i < 0 || !strings.Contains(found[i].Message, c.want) || !strings.Contains(found[i].Fix, c.fix) {
			t.Errorf("%s: %+v, want a complaint with %q and %q", c.name, found, c.want, c.fix)
		}
	}
}

func TestNothingIsSetUnasked(t *testing.T) {
	d := nvmltest.H200(0)
	d.Root, d.Persist = true, false
	api := &nvmltest.API{GPUs: []*nvmltest.Device{d}}
	look(t, "persistence", api, Target{})
	look(t, "clocks", api, Target{})
	if len(d.Commands) != 0 {
		t.Fatalf("settings changed: %v", d.Commands)
	}
	yes := Target{Args: map[string]cty.Value{"apply": cty.True, "lock_mhz": cty.NumberIntVal(1500)}}
	if f := look(t, "clocks", api, yes); !f[0].OK || len(d.Commands) != 1 {
		t.Errorf("%+v, commands %v", f, d.Commands)
	}
	if f := look(t, "persistence", api, yes); !f[0].OK || !d.Persist {
		t.Errorf("%+v", f)
	}
	d.Root = false
	if f := look(t, "clocks", api, yes); f[0].OK || !strings.Contains(f[0].Fix, "as root: nvidia-smi -i 0 -lgc 1500,1500") {
		t.Errorf("without root: %+v", f)
	}
}

func TestNoLibrary(t *testing.T) {
	checks := GPUChecks(func() (nvml.API, error) { return nil, nvml.ErrNotBuilt })
	for _, c := range checks {
		f := c.Look(t.Context(), Target{})
		if len(f) != 1 || f[0].OK || f[0].Fix == "" {
			t.Errorf("%s without the library: %+v", c.Name, f)
		}
	}
	broken := &nvmltest.API{Err: errors.New("driver not loaded")}
	if f := look(t, "ecc", broken, Target{}); f[0].OK || !strings.Contains(f[0].Message, "driver not loaded") {
		t.Errorf("%+v", f)
	}
}
