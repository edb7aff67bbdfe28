package runtimes

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/base/testutil"
)

var twoGPUs = []Device{{Index: 0, UUID: "GPU-aaaa", Name: "NVIDIA H200"},
	{Index: 1, UUID: "GPU-bbbb", Name: "NVIDIA H200"}}

func listed(d ...Device) func() ([]Device, error) { return func() ([]Device, error) { return d, nil } }

func slotsOf(t *testing.T, rt *stage.Runtime, list func() ([]Device, error)) ([]worker.Slot, error) {
	t.Helper()
	if rt.Address == "" {
		rt.Address = "runtime.x"
	}
	p := NewPools(Kinds())
	defer p.Close()
	p.Devices = list
	return p.slots(rt, Place{RunDir: "/run", StateDir: t.TempDir(), PlanDir: "/plan"})
}

func places(slots []worker.Slot) []string {
	var out []string
	for _, s := range slots {
		out = append(out, s.Name+" "+string(rune('0'+s.Device))+" "+s.Spec.Init.UUID)
	}
	return out
}

func TestGPUSlots(t *testing.T) {
	slots, err := slotsOf(t, &stage.Runtime{Kind: "cuda", Workers: 2}, listed(twoGPUs...))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"w0 0 GPU-aaaa", "w1 1 GPU-bbbb", "w2 0 GPU-aaaa", "w3 1 GPU-bbbb"}
	if diff := cmp.Diff(want, places(slots)); diff != "" {
		t.Error(diff)
	}
	if s := slots[3].Spec; s.LogPath != "/run/workers/x-w3.log" || s.Args[1] != "worker" ||
		!contains(s.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID") {
		t.Errorf("%+v", s)
	}
	slots, err = slotsOf(t, &stage.Runtime{Kind: "cuda", Devices: []int{1}}, listed(twoGPUs...))
	if err != nil || len(slots) != 1 || slots[0].Device != 1 {
		t.Errorf("%v, %v", slots, err)
	}
	for _, c := range []struct {
		rt   *stage.Runtime
		list func() ([]Device, error)
		want string
	}{
		{&stage.Runtime{Kind: "cuda", Devices: []int{5}}, listed(twoGPUs...),
			"device 5 is not visible here; there are 0 (NVIDIA H200), 1 (NVIDIA H200)"},
		{&stage.Runtime{Kind: "cuda"}, listed(), "runtime.x needs an NVIDIA GPU"},
		{&stage.Runtime{Kind: "nccl"}, listed(), "needs an NVIDIA GPU"},
		{&stage.Runtime{Kind: "python", Python: "no-such-python"}, listed(), "no-such-python"},
	} {
		if _, err := slotsOf(t, c.rt, c.list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v gave %v, want %q", c.rt, err, c.want)
		}
	}
	slots, err = slotsOf(t, &stage.Runtime{Kind: "nccl", Workers: 4}, listed(twoGPUs...))
	if err != nil || len(slots) != 1 || slots[0].Device != -1 {
		t.Fatalf("%v, %v", slots, err)
	}
	if got, ok := slots[0].Spec.Init.Options["devices"]; ok {
		t.Errorf("devices %v, although the runtime names none", got)
	}
	slots, err = slotsOf(t, &stage.Runtime{Kind: "nccl", Devices: []int{1, 0}}, listed(twoGPUs...))
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := json.Marshal(slots[0].Spec.Init.Options["devices"]); string(raw) != "[1,0]" {
		t.Errorf("devices %s", raw)
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// fakePython returns an interpreter that prints a version for every query.
func fakePython(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	testutil.WriteProgram(t, path, "#!/bin/sh\nprintf '"+version+"'\n")
	return path
}

func TestPythonSlots(t *testing.T) {
	rt := &stage.Runtime{
		Kind: "python", Python: fakePython(t, "1"), Package: "torch", Requires: ">=2", Path: []string{"ops",
			"/abs"}, CollectorRoot: "../aic",
		Env: map[string]string{"B": "2", "A": "1"}, Range: hcl.Range{Filename: "/plans/sub/p.hcl"},
		Options: map[string]cty.Value{"verify": cty.True, "window": cty.NumberIntVal(3)},
	}
	slots, err := slotsOf(t, rt, listed(twoGPUs...))
	if err != nil || len(slots) != 2 {
		t.Fatalf("%v, %v", slots, err)
	}
	s := slots[0].Spec
	raw, err := json.Marshal(s.Init.Options)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"collector_root":"/plans/aic","package":"torch","path":["/plans/sub/ops","/abs"],"requires":"\u003e=2","verify":true,"window":3}`; string(raw) != want {
		t.Errorf("options %s\nwant    %s", raw, want)
	}
	if s.Env[0] != "A=1" || s.Env[1] != "B=2" || s.Init.Env["A"] != "1" {
		t.Errorf("env %v", s.Env)
	}
	if _, err := os.Stat(s.Args[len(s.Args)-1]); err != nil {
		t.Errorf("the host file: %v", err)
	}
	// Without a GPU, and if the plan requests it, it runs on the processor.
	if slots, err = slotsOf(t, rt, listed()); err != nil || len(slots) != 1 || slots[0].Device != -1 {
		t.Errorf("%v, %v", slots, err)
	}
	p := NewPools(Kinds())
	defer p.Close()
	p.Devices = listed(twoGPUs...)
	rt.Kind = "python"
	for device, locks := range map[string][]string{"cpu": {"cpu"}, "none": nil} {
		rt.Options["device"] = cty.StringVal(device)
		if slots, err = slotsOf(t, rt, p.Devices); err != nil || len(slots) != 1 || slots[0].Device != -1 {
			t.Errorf("%s: %v, %v", device, slots, err)
		}
		if diff := cmp.Diff(locks, p.devicesOf(rt, slots)); diff != "" {
			t.Errorf("%s: locked %s", device, diff)
		}
	}

	rt.Kind, rt.Options = "cpu", map[string]cty.Value{}
	for synthetic, locks := range map[bool][]string{false: {"cpu"}, true: nil} {
		rt.Options["synthetic"] = cty.BoolVal(synthetic)
		if diff := cmp.Diff(locks, p.devicesOf(rt, nil)); diff != "" {
			t.Errorf("synthetic = %t: locked %s", synthetic, diff)
		}
	}
}

func TestWorkersShareTheCores(t *testing.T) {
	t.Setenv("OMP_NUM_THREADS", "") // is set back at the end
	for _, c := range []struct {
		workers            int
		device             string
		own, set, expected string
	}{
		{workers: 1}, // on two GPUs; the machine's cores decide what is expected
		{workers: 1000, expected: "1"},
		{workers: 2, own: "7", expected: "7"},
		{workers: 2, set: "5"},
		{workers: 2, device: "cpu"}, // a measurement has all cores
	} {
		os.Unsetenv("OMP_NUM_THREADS")
		rt := &stage.Runtime{Kind: "python", Python: fakePython(t, "1"), Workers: c.workers, Options: map[string]cty.Value{}}
		if c.own != "" {
			rt.Env = map[string]string{"OMP_NUM_THREADS": c.own}
		}
		if c.set != "" {
			os.Setenv("OMP_NUM_THREADS", c.set)
		}
		if c.device != "" {
			rt.Options["device"] = cty.StringVal(c.device)
		}
		if c.workers == 1 {
			c.expected = strconv.Itoa(max(runtime.NumCPU()/len(twoGPUs), 1))
		}
		slots, err := slotsOf(t, rt, listed(twoGPUs...))
		if err != nil {
			t.Fatal(err)
		}
		if got := slots[0].Spec.Init.Env["OMP_NUM_THREADS"]; got != c.expected {
			t.Errorf("%d workers on %q, own %q, set %q: %q threads, want %q", c.workers, c.device, c.own, c.set, got, c.expected)
		}
	}
}

func TestUnknownOptionValue(t *testing.T) {
	rt := &stage.Runtime{Kind: "cpu", Options: map[string]cty.Value{"threads": cty.UnknownVal(cty.Number)}}
	if _, err := slotsOf(t, rt, nil); err == nil || !strings.Contains(err.Error(), "threads: the value is not known yet") {
		t.Errorf("got %v", err)
	}
}

func TestDevicesOfTheDriver(t *testing.T) {
	dir := t.TempDir()
	for bus, text := range map[string]string{
		"0000:9a:00.0": "Model: \t\t NVIDIA H200\nIRQ: 1\nGPU UUID: \t GPU-bbbb\n",
		"0000:18:00.0": "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-aaaa\n",
		"0000:aa:00.0": "",
	} {
		if err := os.MkdirAll(filepath.Join(dir, bus), 0o755); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, bus, "information"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := devicesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(twoGPUs, got); diff != "" {
		t.Error(diff)
	}
	asleep := t.TempDir()
	for _, bus := range []string{"0000:18:00.0", "0000:9a:00.0"} {
		path := filepath.Join(asleep, bus)
		text := "Model: \t NVIDIA H200\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
		if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "information"), []byte(text),
			0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := devicesIn(asleep); err != nil || len(got) != 2 || got[0].UUID != "" || got[1].UUID != "" {
		t.Errorf("GPUs that are not initialized: %v, %v", got, err)
	}
	if got, err := devicesIn(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Errorf("without a driver: %v, %v", got, err)
	}
	for visible, want := range map[string]string{
		"1,0": "GPU-bbbb GPU-aaaa", "GPU-b": "GPU-bbbb", "": "", "0,7,1": "GPU-aaaa", "-1": "", "MIG-1": "",
	} {
		var ids []string
		for _, d := range nvml.Visible(twoGPUs, visible) {
			ids = append(ids, d.UUID)
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q shows %v, want %s", visible, ids, want)
		}
	}
}

func TestExpectedEnvironment(t *testing.T) {
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.NewRun(); err != nil {
		t.Fatal(err)
	}
	p := NewPools(Kinds())
	defer p.Close() //nolint:errcheck // no workers
	cpu := &stage.Runtime{Kind: "cpu", Address: "runtime.cpu"}
	if e, assumed := p.Expect(t.Context(), store, cpu); e == nil || assumed != "" || e.Framework != "CPU" ||
		e.Device == "" {
		t.Errorf("cpu: %+v, %q", e, assumed)
	}
	py := &stage.Runtime{Kind: "python", Address: "module.m.runtime.x[\"a/b\"]", Package: "vllm",
		Python: fakePython(t, "0.24.0")}
	if e, _ := p.Expect(t.Context(), store, py); e != nil {
		t.Errorf("a runtime that was never seen: %+v", e)
	}
	seen := Environment{Framework: "VLLM", Version: "0.24.0", Device: "NVIDIA H200", Identity: identity(py),
		SeenAt: "2026-01-02T03:04:05Z", Workers: 8}
	if err := writeSeen(store, py.Address, seen); err != nil {
		t.Fatal(err)
	}
	e, assumed := p.Expect(t.Context(), store, py)
	if e == nil || !cmp.Equal(*e, seen) || assumed != "VLLM 0.24.0 on NVIDIA H200, as seen on 2026-01-02" {
		t.Errorf("%+v, %q", e, assumed)
	}
	py.Python = fakePython(t, "0.25.0")
	if e, assumed = p.Expect(t.Context(), store, py); e == nil || e.Version != "0.25.0" || e.Device != "NVIDIA H200" ||
		!strings.Contains(assumed, "vllm 0.25.0 is installed") {
		t.Errorf("%+v, %q", e, assumed)
	}
}

// A plan reports GPUs that differ from those that it assumes.
func TestExpectReportsOtherGPUs(t *testing.T) {
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.NewRun(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		rt     stage.Runtime
		here   []Device
		driver string
		want   string
	}{
		"the same": {stage.Runtime{Kind: "cuda"}, twoGPUs, "580.1", ""},
		"another GPU": {stage.Runtime{Kind: "cuda"},
			[]Device{{Name: "NVIDIA B200"}, {Index: 1, Name: "NVIDIA B200"}}, "590.1", "; this machine has NVIDIA B200"},
		"one of two": {stage.Runtime{Kind: "cuda"},
			[]Device{{Name: "NVIDIA L4"}, {Index: 1, Name: "NVIDIA H200"}}, "580.1", ""},
		"the other of two": {stage.Runtime{Kind: "cuda", Devices: []int{0}},
			[]Device{{Name: "NVIDIA L4"}, {Index: 1, Name: "NVIDIA H200"}}, "580.1", "; this machine has NVIDIA L4"},
		"another driver": {stage.Runtime{Kind: "nccl"}, twoGPUs, "590.1",
			"; this machine has the driver 590.1, then it was 580.1"},
		"no driver to be seen": {stage.Runtime{Kind: "cuda"}, twoGPUs, "", ""},
		"a laptop":             {stage.Runtime{Kind: "cuda"}, nil, "", ""},
		"python": {stage.Runtime{Kind: "python", Python: "no-such-python"}, []Device{{Name: "NVIDIA B200"}},
			"", "; this machine has NVIDIA B200"},
		"python in a container": {stage.Runtime{Kind: "python", Launcher: []string{"docker"}},
			[]Device{{Name: "NVIDIA B200"}}, "", ""},
		"python without its GPU": {stage.Runtime{Kind: "python", Python: "no-such-python",
			Options: map[string]cty.Value{"device": cty.StringVal("cpu")}}, []Device{{Name: "NVIDIA B200"}}, "", ""},
	} {
		p := NewPools(Kinds())
		p.Devices, p.Driver = listed(tt.here...), func() string { return tt.driver }
		tt.rt.Address = "runtime.x"
		hello := &worker.Hello{Framework: "X", Version: "1", Device: "NVIDIA H200", Env: map[string]string{"driver": "580.1"}}
		seen := EnvironmentOf(&tt.rt, hello)
		seen.SeenAt = "2026-01-02T03:04:05Z"
		if err := writeSeen(store, tt.rt.Address, seen); err != nil {
			t.Fatal(err)
		}
		e, assumed := p.Expect(t.Context(), store, &tt.rt)
		if want := "X 1 on NVIDIA H200, as seen on 2026-01-02" + tt.want; e == nil || e.Device != "NVIDIA H200" ||
			assumed != want {
			t.Errorf("%s: %q, want %q", name, assumed, want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDriverVersion(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan 1 00:00:00 UTC 2026\nGCC version:  gcc " +
			"version 12.2.0 (Debian)\n": "580.159.04",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54  Release Build  (x@y)\n": "550.54",
		"GCC version:  gcc version 12.2.0 \n":                                                     "",
	} {
		if got := driverVersion(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEnvironmentOfAnotherIdentityIsIgnored(t *testing.T) {
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.NewRun(); err != nil {
		t.Fatal(err)
	}
	p := NewPools(Kinds())
	defer p.Close() //nolint:errcheck // no workers
	rt := &stage.Runtime{Kind: "cuda", Address: "runtime.gpu"}
	if err := writeSeen(store, rt.Address,
		EnvironmentOf(rt, &worker.Hello{Version: "13.0", Device: "NVIDIA H200"})); err != nil {
		t.Fatal(err)
	}
	if e, _ := p.Expect(t.Context(), store, rt); e == nil || e.Version != "13.0" {
		t.Errorf("%+v", e)
	}
	for _, other := range []*stage.Runtime{
		{Kind: "python", Address: rt.Address}, {Kind: "cuda", Address: rt.Address, Image: "x"}, {Kind: "cuda",
			Address: "runtime.other"},
	} {
		if e, _ := p.Expect(t.Context(), store, other); e != nil {
			t.Errorf("%+v expects %+v", other, e)
		}
	}
}

func TestPoolsAreShared(t *testing.T) {
	p := NewPools(Kinds())
	p.Devices = listed()
	rt := &stage.Runtime{Kind: "cpu", Name: "cpu", Address: "runtime.cpu"}
	a, err := p.Get(t.Context(), rt, Place{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := p.Get(t.Context(), rt, Place{}); err != nil || b != a {
		t.Errorf("a second pool: %v, %v", b, err)
	}
	if _, err := p.Get(t.Context(), &stage.Runtime{Kind: "rocm", Address: "runtime.r"}, Place{}); err == nil ||
		!strings.Contains(err.Error(), `kind "rocm"`) {
		t.Errorf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Run(context.Background(), worker.Settings{}, nothing{}); err != nil {
		t.Errorf("a closed pool with nothing to do: %v", err)
	}
}

type nothing struct{}

func (nothing) Next() *worker.Task  { return nil }
func (nothing) Pending() int        { return 0 }
func (nothing) Done(worker.Outcome) {}

func TestRecycling(t *testing.T) {
	p := NewPools(Kinds())
	defer p.Close()
	rt := &stage.Runtime{Kind: "python", Options: map[string]cty.Value{"recycle_after": cty.NumberIntVal(50)}}
	if after, growth := p.recycling(rt); after != 50 || growth != 16<<30 {
		t.Errorf("%d cases, %d bytes", after, growth)
	}
	if after, growth := p.recycling(&stage.Runtime{Kind: "cpu"}); after != 0 || growth != 0 {
		t.Errorf("%d cases, %d bytes", after, growth)
	}
}

// TestPoolOptionsAreNotSentToWorkers checks that options of the pool are not sent to workers, which reject unknown
// options.
func TestPoolOptionsAreNotSentToWorkers(t *testing.T) {
	p := NewPools(Kinds())
	defer p.Close()
	rt := &stage.Runtime{Name: "p", Address: "runtime.p", Kind: "python", Python: fakePython(t, "1"),
		Options: map[string]cty.Value{
			"recycle_after": cty.NumberIntVal(3), "window": cty.NumberIntVal(8),
		}}
	spec, err := p.Command(rt, Place{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got := spec.Init.Options; len(got) != 1 || got["window"] == nil {
		t.Errorf("a worker is given the options %v", got)
	}
}
