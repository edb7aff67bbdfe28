package doctor

import (
	"bytes"
	"strings"
	"testing"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/dl"
	"aicplan/systems"
)

func h200() Facts {
	return Facts{
		Info:    cuda.DeviceInfo{Name: "NVIDIA H200", Major: 9, SMs: 132, MemoryBytes: 150109880320},
		Devices: 8, BusBits: 6144, MemoryMHz: 3201, PowerWatts: 700, MemoryBytes: 150754820096,
		CopyBytesPerSecond: 4.0e12, SmallCopySeconds: 1.46e-6, GemmFlops: 790e12, PeerBytesPerSecond: 380e9,
	}
}

func find(t *testing.T, r *Probed, section, key string) SpecValue {
	t.Helper()
	for _, v := range r.Values {
		if v.Section == section && v.Key == key {
			return v
		}
	}
	t.Fatalf("no %s.%s", section, key)
	return SpecValue{}
}

func TestKnownDevice(t *testing.T) {
	r, err := SystemSpec(h200())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		section, key string
		value        any
		source       string
		note         string
	}{
		{"gpu", "mem_bw", 4.92e12, Read, "6144 bits at 3201 MHz"},
		{"gpu", "mem_bw_empirical_scaling_factor", 0.814, Measured, "4000 GB/s"},
		{"gpu", "mem_empirical_constant_latency", 1.5e-6, Measured, "16 bytes"},
		{"gpu", "mem_capacity", int64(150754820096), Read, "bytes"},
		{"gpu", "sm_version", 90, Read, ""},
		{"gpu", "power", 700.0, Read, ""},
		{"node", "num_gpus_per_node", 8, Read, ""},
	} {
		if v := find(t, r, c.section, c.key); v.Value != c.value || v.Source != c.source ||
			!strings.Contains(v.Note, c.note) {
			t.Errorf("%s.%s is %+v, want %v %s", c.section, c.key, v, c.value, c.source)
		}
	}
	if v := find(t, r, "gpu", "bfloat16_tc_flops"); v.Source != LookedUp ||
		!strings.Contains(v.Note, "h200_sxm; a product reached 790 TFLOP/s") {
		t.Errorf("%+v", v)
	}
	if v := find(t, r, "node", "intra_node_bw"); v.Source != LookedUp || !strings.Contains(v.Note, "380 GB/s") {
		t.Errorf("%+v", v)
	}
	var text bytes.Buffer
	if err := r.YAML(&text, "data/h200_probed"); err != nil {
		t.Fatal(err)
	}
	spec, problems := systems.Parse("h200_probed.yaml", text.Bytes())
	if len(problems) > 0 {
		t.Fatalf("the probed spec of a known device does not load: %v\n%s", problems, text.String())
	}
	if spec.GPU.MemBW != 4.92e12 || spec.GPU.BFloat16Flops != 989e12 ||
		spec.Object()["nccl_mem"].(map[string]any)["8"] != int64(411041792) {
		t.Errorf("loaded as %+v", spec.GPU)
	}
}

func TestUnknownDevice(t *testing.T) {
	f := h200()
	f.Info.Name, f.MemoryMHz, f.PowerWatts = "NVIDIA Made Up 9", 0, 0
	r, err := SystemSpec(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"mem_bw", "bfloat16_tc_flops", "power", "mem_bw_empirical_scaling_factor"} {
		if v := find(t, r, "gpu", key); v.Source != Unknown || v.Value != nil {
			t.Errorf("%s is %+v, nothing is known about it", key, v)
		}
	}
	var text bytes.Buffer
	if err := r.YAML(&text, "data/x"); err != nil {
		t.Fatal(err)
	}
	_, problems := systems.Parse("x.yaml", text.Bytes())
	if len(problems) == 0 {
		t.Error("a spec with unknown values passes for complete")
	}
	if !strings.Contains(text.String(), "# mem_bw: # unknown") {
		t.Errorf("unknown values are not told:\n%s", text.String())
	}
	if _, err := SystemSpec(Facts{}); err == nil {
		t.Error("nothing probed gives a spec")
	}
}

func TestGPUProbe(t *testing.T) {
	f, err := Measure(t.Context(), 0)
	if dl.IsNotFound(err) {
		t.Skipf("no GPU: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := SystemSpec(f)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.YAML(&text, "data/probed"); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
}
