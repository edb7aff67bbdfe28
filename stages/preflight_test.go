package stages_test

import (
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/doctor"
	"aicplan/cudaops/nvml"
	"aicplan/engine/stage"
	"aicplan/stages/preflight"
	"aicplan/systems"
)

func look(t *testing.T, name string, api nvml.API, err error, target preflight.Target) []doctor.Finding {
	t.Helper()
	checks := preflight.Checks(nil, func() (nvml.API, error) { return api, err })
	i := slices.IndexFunc(checks, func(c preflight.Check) bool { return c.Name == name })
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
		target     preflight.Target
	}{
		{"exclusive", "foreign compute process", func(d *cudatest.GPU) { d.Procs = []nvml.Process{{PID: 1 << 30}} },
			preflight.Target{}},
		{"temperature", "more than 30 C", func(*cudatest.GPU) {},
			preflight.Target{Limits: doctor.Limits{"max_celsius": 30.0}}},
		{"gpus", "the plan is for b200_sxm", func(*cudatest.GPU) {}, preflight.Target{System: b200}},
		{"gpus", "the plan wants 4", func(*cudatest.GPU) {}, preflight.Target{Limits: doctor.Limits{"count": 4.0}}},
		{"gpus", "the plan wants at least 2", func(*cudatest.GPU) {}, preflight.Target{Limits: doctor.Limits{"min": 2.0}}},
		{"mig", "no device 3", func(*cudatest.GPU) {}, preflight.Target{Runtime: &stage.Runtime{Devices: []int{3}}}},
	} {
		healthy := &cudatest.NVML{Driver: "580.159.04", GPUs: []*cudatest.GPU{cudatest.H200(0)}}
		if good := look(t, c.name, healthy, nil, preflight.Target{}); len(good) == 0 || good[0].Result != doctor.Pass {
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
		found := look(t, "exclusive", api, nil, preflight.Target{Runtime: &stage.Runtime{}})
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
		f := look(t, c.Name, nil, nvml.ErrNotBuilt, preflight.Target{})
		if len(f) == 0 || f[0].Result != doctor.Skip || !strings.Contains(f[0].Message, nvml.ErrNotBuilt.Error()) {
			t.Errorf("%s without the library: %+v", c.Name, f)
		}
	}
}
