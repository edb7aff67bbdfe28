package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/nvml"
	"aicplan/engine/stage"
	"aicplan/systems"
)

func look(t *testing.T, name string, api *cudatest.NVML, target Target) []Finding {
	t.Helper()
	checks := GPUChecks(func() (nvml.API, error) { return api, nil })
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %s", name)
	}
	return checks[i].Look(t.Context(), target)
}

// TestChecksReachTheDoctor checks that the attributes and devices of every check are passed to the doctor.
func TestChecksReachTheDoctor(t *testing.T) {
	b200, err := systems.Load("b200_sxm")
	if err != nil {
		t.Fatal(err)
	}

	args := func(name string, v cty.Value) Target { return Target{Args: map[string]cty.Value{name: v}} }
	for _, c := range []struct {
		name, want string
		change     func(*cudatest.GPU)
		target     Target
	}{
		{"exclusive", "foreign compute process",
			func(d *cudatest.GPU) { d.Procs = []nvml.Process{{PID: 1 << 30}} }, Target{}},
		{"persistence", "persistence mode is off", func(d *cudatest.GPU) { d.Persist = false }, Target{}},
		{"clocks", "500 MHz", func(d *cudatest.GPU) { d.Clock.SM = 500 }, Target{}},
		{"throttle", "hardware thermal slowdown", func(d *cudatest.GPU) { d.Why = nvml.HwThermal }, Target{}},
		{"temperature", "more than 30 C", func(d *cudatest.GPU) {}, args("max_celsius", cty.NumberIntVal(30))},
		{"ecc", "3 uncorrectable", func(d *cudatest.GPU) { d.Ecc = nvml.ECC{Enabled: true, Uncorrected: 3} }, Target{}},
		{"ecc", "published rows have it off", func(*cudatest.GPU) {}, args("enabled", cty.False)},
		{"mig", "MIG", func(d *cudatest.GPU) { d.MigOn = true }, Target{}},
		{"gpus", "the plan is for b200_sxm", func(*cudatest.GPU) {}, Target{System: b200}},
		{"gpus", "the plan wants 4", func(*cudatest.GPU) {}, args("count", cty.NumberIntVal(4))},
		{"gpus", "the plan wants at least 2", func(*cudatest.GPU) {}, args("min", cty.NumberIntVal(2))},
		{"mig", "no device 3", func(*cudatest.GPU) {}, Target{Runtime: &stage.Runtime{Devices: []int{3}}}},
	} {
		d := cudatest.H200(0)
		good := look(t, c.name, &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{cudatest.H200(0)}}, Target{})
		if len(good) == 0 || !good[0].OK {
			t.Errorf("%s complains about a healthy H200: %+v", c.name, good)
		}

		c.change(d)
		found := look(t, c.name, &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{d}}, c.target)
		i := slices.IndexFunc(found, func(f Finding) bool { return !f.OK && !f.Skip })
		if i < 0 || !strings.Contains(found[i].Message, c.want) || found[i].Fix == "" && c.name != "mig" {
			t.Errorf("%s: %+v, want a complaint with %q", c.name, found, c.want)
		}
	}
}

// Work on a GPU that CUDA_VISIBLE_DEVICES hides from the run disturbs nothing.
func TestHiddenGPUsAreNotJudged(t *testing.T) {
	busy := cudatest.H200(1)
	busy.Procs = []nvml.Process{{PID: 1 << 30}}
	api := &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{cudatest.H200(0), busy}}
	for env, ok := range map[string]bool{"0": true, "1": false, "0,1": false,
		"GPU-00000000-0000-0000-0000-000000000000": true} {
		t.Setenv("CUDA_VISIBLE_DEVICES", env)
		found := look(t, "exclusive", api, Target{Runtime: &stage.Runtime{}})
		if got := !slices.ContainsFunc(found, func(f Finding) bool { return !f.OK }); got != ok || len(found) == 0 {
			t.Errorf("CUDA_VISIBLE_DEVICES=%s: %+v", env, found)
		}
	}
}

func TestNoLibraryIsASkipNotAPass(t *testing.T) {
	for _, c := range GPUChecks(func() (nvml.API, error) { return nil, nvml.ErrNotBuilt }) {
		f := c.Look(t.Context(), Target{})
		if len(f) == 0 || f[0].OK || !f[0].Skip || !strings.Contains(f[0].Message, nvml.ErrNotBuilt.Error()) {
			t.Errorf("%s without the library: %+v", c.Name, f)
		}
	}
}
