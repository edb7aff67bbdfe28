package doctor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/doctor"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/ops"
)

func node(change func(*cudatest.GPU)) (*doctor.Node, *cudatest.GPU) {
	d := cudatest.H200(0)
	if change != nil {
		change(d)
	}
	return &doctor.Node{NVML: &cudatest.NVML{Driver: "580.159.04", CUDA: 13000, GPUs: []*cudatest.GPU{d}}}, d
}

// TestChecks runs each check on a healthy device and on one that must fail it.
func TestChecks(t *testing.T) {
	checks := map[string]func(*doctor.Node) []doctor.Finding{}
	for _, c := range doctor.Checks() {
		if !c.Host {
			limits := map[string]doctor.Limits{"gpus": {"count": 1.0, "min": 1.0, "name": "h200"}}[c.Name]
			checks[c.Name] = func(n *doctor.Node) []doctor.Finding { return c.Run(n, limits) }
		}
	}
	if len(checks) != 8 {
		t.Errorf("%d checks of GPUs", len(checks))
	}
	for name, check := range checks {
		n, _ := node(nil)
		fs := check(n)
		if len(fs) != 1 || fs[0].Result != doctor.Pass || fs[0].Check != name {
			t.Errorf("%s on a healthy device: %+v", name, fs)
		}
		n = &doctor.Node{NVMLErr: nvml.ErrNotBuilt}
		if fs := check(n); len(fs) != 1 || fs[0].Result != doctor.Skip ||
			!strings.Contains(fs[0].Message, "no NVML in this build") {
			t.Errorf("%s without the library: %+v", name, fs)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*cudatest.GPU)
		text   string
		fix    string
	}{
		{"exclusive", func(d *cudatest.GPU) { d.Procs = []nvml.Process{{PID: 4711, Memory: 3 << 30}} }, "4711 with 3.0 GiB",
			"end them"},
		{"persistence", func(d *cudatest.GPU) { d.Persist = false }, "off", "sudo nvidia-smi -i 0 -pm 1"},
		{"clocks", func(d *cudatest.GPU) { d.Clock.SM, d.Why = 345, nvml.Idle }, "345 MHz of 1980 MHz; reasons now: idle",
			"sudo nvidia-smi -i 0 --lock-gpu-clocks=1980,1980"},
		{"throttle", func(d *cudatest.GPU) { d.Why = nvml.PowerCap | nvml.HwThermal }, "hardware thermal slowdown", "cool"},
		{"temperature", func(d *cudatest.GPU) { d.Temp.GPU = 81 }, "81 C, more than 75 C", "cooled"},
		{"ecc", func(d *cudatest.GPU) { d.Ecc.Enabled = false }, "off", "nvidia-smi -i 0 -e 1"},
		{"ecc", func(d *cudatest.GPU) { d.Ecc.Uncorrected = 2 }, "2 uncorrectable", "replace"},
		{"mig", func(d *cudatest.GPU) { d.MigOn = true }, "split", "-mig 0"},
		{"gpus", func(d *cudatest.GPU) { d.ID.Name = "NVIDIA H100 80GB HBM3" }, "not a h200", "system"},
	} {
		n, _ := node(c.change)
		fs := checks[c.name](n)
		if len(fs) != 1 || fs[0].Result != doctor.Fail || !strings.Contains(fs[0].Message, c.text) ||
			!strings.Contains(fs[0].Fix, c.fix) || !strings.HasPrefix(fs[0].Device, "0: ") && c.name != "gpus" {
			t.Errorf("%s: %+v, want a failure with %q and the fix %q", c.name, fs, c.text, c.fix)
		}
	}
	// The power cap is normal for large products, not a failure.
	n, _ := node(func(d *cudatest.GPU) { d.Why = nvml.PowerCap })
	if fs := checks["throttle"](n); fs[0].Result != doctor.Pass {
		t.Errorf("the power cap fails the throttle check: %+v", fs)
	}
	// A missing reading is skipped.
	n, d := node(nil)
	d.Fail = map[string]error{"ECC": nvml.ErrUnsupported}
	if fs := checks["ecc"](n); fs[0].Result != doctor.Skip {
		t.Errorf("ECC that cannot be read: %+v", fs)
	}
	n, _ = node(nil)
	n.Devices = []int{3}
	if fs := checks["throttle"](n); len(fs) != 1 || fs[0].Result != doctor.Fail ||
		!strings.Contains(fs[0].Message, "no device 3") {
		t.Errorf("a device that is not there: %+v", fs)
	}
	n, _ = node(func(d *cudatest.GPU) { d.Procs = []nvml.Process{{PID: os.Getpid()}} })
	if fs := checks["exclusive"](n); fs[0].Result != doctor.Pass {
		t.Errorf("an own process is foreign: %+v", fs)
	}
}

// TestHostChecks checks the machine without a GPU: with limits that it fulfils, and with some that none does.
func TestHostChecks(t *testing.T) {
	n := &doctor.Node{Folders: []string{t.TempDir(), "/proc/no/such/folder"}}
	for _, c := range doctor.Checks() {
		if !c.Host {
			continue
		}

		fits, fails := doctor.Limits{}, doctor.Limits{}
		for _, a := range c.Attributes {
			fits[a.Name], fails[a.Name] = 0.0, 1e12
			if a.Name == "max_per_core" {
				fits[a.Name], fails[a.Name] = 1e12, -1.0
			}
		}
		if found := c.Run(n, fits); found[0].Result != doctor.Pass || found[0].Check != c.Name {
			t.Errorf("%s: %+v", c.Name, found)
		}

		found := c.Run(n, fails)
		if f := found[len(found)-1]; f.Result != doctor.Fail || f.Fix == "" {
			t.Errorf("%s: %+v", c.Name, found)
		}
	}
}

// TestOverviewAdvises checks that unlocked clocks give only a warning.
func TestOverviewAdvises(t *testing.T) {
	n, _ := node(func(d *cudatest.GPU) {
		d.Clock.SM, d.Persist = 345, false
	})
	libs := []doctor.Library{{Name: "driver", Version: "13.0"}, {Name: "cublaslt", Version: "13.1.0"},
		{Name: "nvrtc", Version: "13.0"}}
	r := doctor.Overview(n, libs)
	if !r.OK() {
		t.Errorf("not fit: %+v", r.Findings)
	}
	var text bytes.Buffer
	if err := r.Text(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"warn  clocks", "--lock-gpu-clocks=1980,1980", "warn  persistence"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
}

func TestOverview(t *testing.T) {
	n, d := node(func(d *cudatest.GPU) {
		d.Procs = []nvml.Process{{PID: 1 << 30, Memory: 1 << 30}}
		d.Fail = map[string]error{"MIG": errors.New("nvmlDeviceGetMigMode: no answer")}
	})
	libs := []doctor.Library{
		{Name: "driver", Version: "13.0", Path: "/usr/lib/libcuda.so.580"},
		{Name: "cublaslt", Version: "13.1.0", Path: "/py/libcublasLt.so.13"},
		{Name: "nvrtc", Error: "NVRTC not found: looked for libnvrtc.so.13"},
	}
	r := doctor.Overview(n, libs)
	if r.OK() {
		t.Error("a machine with a foreign process and no NVRTC is fine")
	}
	if len(r.GPUs) != 1 || r.GPUs[0].UUID != d.ID.UUID || len(r.GPUs[0].Unknown) != 1 || r.Driver != "580.159.04" ||
		r.CUDA != "13.0" {
		t.Errorf("%+v", r)
	}
	r.Deep = []doctor.Deep{{Device: "0: NVIDIA H200", Numerics: []ops.NumericCheck{
		{Case: "gemm bfloat16", Result: doctor.Pass, Dev: ops.Deviation{Samples: 64, Relative: 1e-3, Tolerance: 4e-3}},
		{Case: "gemm fp8", Result: doctor.Fail, Message: "relative error 0.3, at most 0.01"},
	}, Timing: ops.Timing{EventStepNS: 32, ReadyMHz: 1980, Problems: []string{"a copy reached 3 GB/s"}}}}
	var text bytes.Buffer
	if err := r.Text(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"NVIDIA H200", "SM 1980 of 1980 MHz", "persistence on, ECC on, MIG unknown", "foreign compute processes: 1073741824 with 1.0 GiB",
		"13.1.0", "looked for libnvrtc.so.13", "gemm fp8", "relative error 0.001 of 0.004", "a copy reached 3 GB/s",
		"no answer"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(`"uuid":"`+d.ID.UUID)) || !bytes.Contains(raw, []byte(`"findings"`)) {
		t.Errorf("%s", raw)
	}
}

func TestOverviewOfSilentDriver(t *testing.T) {
	n, _ := node(func(d *cudatest.GPU) {
		d.Fail = map[string]error{}
		for _, name := range []string{"Clocks", "Reasons", "Temperature", "Power", "Memory", "Processes", "Persistence",
			"ECC", "MIG"} {
			d.Fail[name] = nvml.ErrUnsupported
		}
	})
	r := doctor.Overview(n, nil)
	raw, err := json.Marshal(r.GPUs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clocks", "clock_reasons", "temperature", "power", "memory", "persistence", "ecc", "mig"} {
		if !bytes.Contains(raw, []byte(`"`+name+`":null`)) {
			t.Errorf("%s is known: %s", name, raw)
		}
	}

	var text bytes.Buffer
	if err := r.Text(&text, false); err != nil {
		t.Fatal(err)
	}
	if want := "persistence unknown, ECC unknown, MIG unknown"; !strings.Contains(text.String(), want) ||
		strings.Contains(text.String(), " 0 C") {
		t.Errorf("the text lacks %q:\n%s", want, text.String())
	}
}

// TestExamineHere runs on any machine: missing parts are reported and nothing fails.
func TestExamineHere(t *testing.T) {
	r := doctor.Examine(t.Context(), false)
	if len(r.Libraries) != 4 {
		t.Fatalf("%+v", r)
	}
	for _, l := range r.Libraries {
		if l.Error == "" && l.Path == "" {
			t.Errorf("%s has neither a path nor an error", l.Name)
		}
	}
}

// TestGPUExamine runs the doctor command with --gpu. Its results on the devices must be plausible in any
// state of the machine.
func TestGPUExamine(t *testing.T) {
	r := doctor.Examine(t.Context(), true)
	if r.Libraries[0].Error != "" {
		t.Skipf("no GPU: %s", r.Libraries[0].Error)
	}
	var text bytes.Buffer
	if err := r.Text(&text, false); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
	for _, d := range r.Deep {
		if d.Error != "" {
			t.Error(d.Error)
		}
		for _, k := range d.Numerics {
			if k.Result == doctor.Fail {
				t.Errorf("%s: %s", k.Case, k.Message)
			}
		}
	}
}
