package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/doctor"
	"aicplan/cudaops/nvml"
	"aicplan/engine/stage"
	"aicplan/systems"
)

func look(t *testing.T, name string, api nvml.API, err error, target Target) []doctor.Finding {
	t.Helper()
	checks := Checks(nil, func() (nvml.API, error) { return api, err })
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %s", name)
	}
	return checks[i].Look(t.Context(), target)
}

// TestChecksReachTheDoctor checks that limits, devices and the system are passed to the checks of the doctor.
func TestChecksReachTheDoctor(t *testing.T) {
	b200, err := systems.Load("b200_sxm")
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name, want string
		change     func(*cudatest.GPU)
		target     Target
	}{
		{"exclusive", "foreign compute process", func(d *cudatest.GPU) { d.Procs = []nvml.Process{{PID: 1 << 30}} }, Target{}},
		{"temperature", "more than 30 C", func(*cudatest.GPU) {}, Target{Limits: doctor.Limits{"max_celsius": 30.0}}},
		{"gpus", "the plan is for b200_sxm", func(*cudatest.GPU) {}, Target{System: b200}},
		{"gpus", "the plan wants 4", func(*cudatest.GPU) {}, Target{Limits: doctor.Limits{"count": 4.0}}},
		{"gpus", "the plan wants at least 2", func(*cudatest.GPU) {}, Target{Limits: doctor.Limits{"min": 2.0}}},
		{"mig", "no device 3", func(*cudatest.GPU) {}, Target{Runtime: &stage.Runtime{Devices: []int{3}}}},
	} {
		healthy := &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{cudatest.H200(0)}}
		if good := look(t, c.name, healthy, nil, Target{}); len(good) == 0 || good[0].Result != doctor.Pass {
			t.Errorf("%s fails on a healthy H200: %+v", c.name, good)
		}

		d := cudatest.H200(0)
		c.change(d)
		found := look(t, c.name, &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{d}}, nil, c.target)
		i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Result == doctor.Fail })
		if i < 0 || !strings.Contains(found[i].Message, c.want) || found[i].Fix == "" && c.name != "mig" {
			t.Errorf("%s: %+v, want a failure with %q", c.name, found, c.want)
		}
	}
}

// TestHiddenGPUsAreNotJudged: work on a GPU that CUDA_VISIBLE_DEVICES hides from the run disturbs nothing.
func TestHiddenGPUsAreNotJudged(t *testing.T) {
	busy := cudatest.H200(1)
	busy.Procs = []nvml.Process{{PID: 1 << 30}}
	api := &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{cudatest.H200(0), busy}}
	for env, ok := range map[string]bool{"0": true, "1": false, "0,1": false,
		"GPU-00000000-0000-0000-0000-000000000000": true} {
		t.Setenv("CUDA_VISIBLE_DEVICES", env)
		found := look(t, "exclusive", api, nil, Target{Runtime: &stage.Runtime{}})
		failed := slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Result == doctor.Fail })
		if failed == ok || len(found) == 0 {
			t.Errorf("CUDA_VISIBLE_DEVICES=%s: %+v", env, found)
		}
	}
}

func TestMissingLibrarySkipsCheck(t *testing.T) {
	for _, c := range doctor.Checks() {
		if c.Host {
			continue
		}
		f := look(t, c.Name, nil, nvml.ErrNotBuilt, Target{})
		if len(f) == 0 || f[0].Result != doctor.Skip || !strings.Contains(f[0].Message, nvml.ErrNotBuilt.Error()) {
			t.Errorf("%s without the library: %+v", c.Name, f)
		}
	}
}

func TestLimitRejectsWrongTypes(t *testing.T) {
	for _, c := range []struct {
		check, name string
		value       cty.Value
		want        any
	}{
		{"disk", "min_gb", cty.NumberIntVal(3), 3.0},
		{"disk", "min_gb", cty.StringVal("3"), nil},
		{"disk", "min_gb", cty.NumberIntVal(-3), nil},
		{"gpus", "name", cty.StringVal("H200"), "H200"},
		{"gpus", "name", cty.NumberIntVal(550), nil},
	} {
		checks := Checks(nil, nil)
		i := slices.IndexFunc(checks, func(k Check) bool { return k.Name == c.check })
		got, err := checks[i].limit(c.name, c.value)
		if got != c.want || (err == nil) != (c.want != nil) {
			t.Errorf("%s.%s = %#v: %v, %v", c.check, c.name, c.value, got, err)
		}
	}
}
