package systems

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBuiltinSystemsLoad(t *testing.T) {
	want := []string{"a100_pcie", "a100_sxm", "a30", "b200_sxm", "b300_sxm", "b60", "gb200", "gb300",
		"h100_pcie", "h100_sxm", "h200_sxm", "l4", "l40s", "rtx_pro_6000_server"}
	if diff := cmp.Diff(want, List()); diff != "" {
		t.Fatal(diff)
	}

	sm := map[string]int{"a100_sxm": 80, "l40s": 89, "h200_sxm": 90, "b200_sxm": 100, "b300_sxm": 103,
		"rtx_pro_6000_server": 120, "b60": 0}
	for _, name := range want {
		s, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		obj := s.Object()
		if s.Name != name || obj["data_dir"] != "data/"+name {
			t.Errorf("%s: name %q, data_dir %q", name, s.Name, obj["data_dir"])
		}

		if v, ok := sm[name]; ok && s.GPU.SMVersion != v {
			t.Errorf("%s: sm_version %d, want %d", name, s.GPU.SMVersion, v)
		}
		memory := obj["nccl_mem"].(map[string]any)["8"]
		if s.Node.NumGPUsPerNode < 1 || memory != int64(411041792) {
			t.Errorf("%s: node %+v, nccl_mem %v", name, s.Node, memory)
		}
	}
}

func TestH200Values(t *testing.T) {
	s, err := Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}

	want := GPU{
		MemBW: 4.8e12, MemBWEmpiricalScalingFactor: 0.8, MemCapacity: 141 << 30,
		BFloat16Flops: 989e12, Int8Flops: 1978e12, FP8Flops: 1978e12, Power: 700, SMVersion: 90,
	}

	if diff := cmp.Diff(want, s.GPU); diff != "" {
		t.Error(diff)
	}
	if s.Node.IntraNodeBW != 450e9 {
		t.Errorf("node %+v", s.Node)
	}

	if s.Has("gpu.fp4_tc_flops") || !s.Has("gpu.fp8_tc_flops") {
		t.Error("Has must tell stated fields from absent ones")
	}

	obj := s.Object()
	gpu := obj["gpu"].(map[string]any)
	if obj["sm_version"] != int64(90) || gpu["sm_version"] != int64(90) || obj["mem_bw"] != gpu["mem_bw"] ||
		obj["nccl_version"] != "2.26.2" || obj["fp32_flops"] != int64(67e12) ||
		obj["mem_empirical_constant_latency"] != 3e-6 {
		t.Errorf("object %v", obj)
	}

	if v, ok := obj["fp4_tc_flops"]; !ok || v != nil {
		t.Errorf("an absent field must be there as nil, got %v %v", v, ok)
	}
	if m := obj["misc"].(map[string]any)["nccl_mem"].(map[string]any); m["4"] != int64(411041792) {
		t.Errorf("nccl_mem %v", m)
	}

	if got := s.UsableMemory(); got <= 149e9 || got >= 150.7e9 {
		t.Errorf("usable memory %d", got)
	}
}

func TestUnknownSystem(t *testing.T) {
	for name, want := range map[string]string{"h200": "h200_sxm", "b200-sxm": "b200_sxm", "l40-s": "l40s",
		"gb20": "gb200"} {
		_, err := Load(name)
		if err == nil || !strings.Contains(err.Error(), "did you mean "+want) {
			t.Errorf("%s: %v, want %s suggested first", name, err, want)
		}
	}
	_, err := Load("turing-complete-machine")
	if err == nil || !strings.Contains(err.Error(), "a100_pcie") {
		t.Errorf("with nothing close all systems must be listed: %v", err)
	}

	if _, err := Load("../h200_sxm"); err == nil {
		t.Error("a path is no name")
	}
}

// TestProblems changes one line of a valid file at a time and expects exactly the named problem.
func TestProblems(t *testing.T) {
	good, ok := Source("h200_sxm")
	if !ok {
		t.Fatal("no source")
	}

	for _, tc := range []struct{ name, old, new, want string }{
		{"GB/s", "mem_bw: 4800000000000", "mem_bw: 4800",
			"t.yaml:4:11: gpu.mem_bw is 4800; that looks like GB/s, and the unit is bytes/s; write 4800000000000"},
		{"TB/s", "mem_bw: 4800000000000", "mem_bw: 4.8",
			"that looks like TB/s, and the unit is bytes/s; write 4800000000000"},
		{"GiB", "mem_capacity: 151397597184", "mem_capacity: 141",
			"t.yaml:7:17: gpu.mem_capacity is 141; that looks like GiB, and the unit is bytes; write 151397597184"},
		{"TFLOP/s", "bfloat16_tc_flops: 989000000000000", "bfloat16_tc_flops: 989",
			"that looks like TFLOP/s, and the unit is FLOP/s; write 989000000000000"},
		{"mW", "power: 700 ", "power: 700000 ",
			"gpu.power is 700000; that looks like mW, and the unit is W; write 700"},
		{"kW", "power: 700 ", "power: 0.7 ", "that looks like kW"},
		{"us", "p2p_latency: 0.00001", "p2p_latency: 10", "that looks like us, and the unit is s; write 0.00001"},
		{"capability", "sm_version: 90", "sm_version: 9.0",
			"gpu.sm_version is 9.0; that looks like compute capability"},
		{"percent", "scaling_factor: 0.8", "scaling_factor: 80", "that looks like percent"},
		{"negative", "power: 700 ", "power: -700 ", "gpu.power must not be negative, and is -700"},
		{"nan", "power: 700 ", "power: .nan ", "gpu.power must be a number"},
		{"whole", "num_gpus_per_node: 8", "num_gpus_per_node: 7.5",
			"node.num_gpus_per_node must be a whole number, not 7.5"},
		{"text", "power: 700 ", "power: a lot ", `gpu.power must be a number, not "a lot"`},
		{"quoted", "power: 700 ", "power: '700' ", `gpu.power must be a number, not "700"`},
		{"misspelt", "power: 700 ", "powr: 700 ", "t.yaml:12:3: there is no field gpu.powr; did you mean gpu.power?"},
		{"section", "sm_version: 90", "pcie_bw: 64000000000\n  sm_version: 90",
			"there is no field gpu.pcie_bw; it belongs under node"},
		{"version", "nccl_version: '2.26.2'", "nccl_version: 2.26",
			"misc.nccl_version is text, but 2.26 is read as a number; quote it: '2.26'"},
		{"missing", "  power: 700 # W\n", "", "t.yaml:3:1: gpu.power is missing (W)"},
		{"missing top", "data_dir: data/h200_sxm\n", "", "data_dir is missing"},
		{"twice", "power: 700 ", "power: 700\n  power: 600 ", "gpu.power is stated twice"},
		{"gpus", "    8: 411041792", "    eight: 411041792",
			`misc.nccl_mem has the key "eight", which is no number of GPUs`},
		{"gpu mem unit", "    8: 411041792", "    8: 392", "misc.nccl_mem is 392; that looks like MiB"},
		{"no value", "power: 700 # W", "power:", "gpu.power needs a value"},
		{"mapping", "gpu:\n", "gpu: fast\nnode:\n", "gpu must be a mapping"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := strings.Replace(string(good), tc.old, tc.new, 1)
			if src == string(good) {
				t.Fatalf("%q is not in the file", tc.old)
			}

			_, problems := Parse("t.yaml", []byte(src))
			if len(problems) == 0 {
				t.Fatal("no problem found")
			}
			if tc.name != "mapping" && len(problems) != 1 {
				t.Errorf("want one problem, got\n%v", problems)
			}

			if !strings.Contains(problems.Error(), tc.want) {
				t.Errorf("want %q, got\n%v", tc.want, problems)
			}
		})
	}
}

func TestProblemsOfWholeFiles(t *testing.T) {
	for src, want := range map[string]string{
		"":                 "the file is empty",
		"- 1\n":            "a system is a mapping",
		"gpu: [1\nnode: {": "this is not YAML",
		"gpu: {}\n":        "gpu.mem_bw is missing",
	} {
		if _, p := Parse("t.yaml", []byte(src)); !strings.Contains(p.Error(), want) {
			t.Errorf("%q: want %q, got %v", src, want, p)
		}
	}
}

func TestLoadFile(t *testing.T) {
	src, _ := Source("l40s")
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, src, 0o644); err != nil {
		t.Fatal(err)
	}

	s, err := LoadFile(path)
	if err != nil || s.Name != "mine" || s.GPU.SMVersion != 89 {
		t.Fatalf("%+v %v", s, err)
	}
	if _, known := s.MatchesDevice("NVIDIA L40S"); known {
		t.Error("nothing is known of the device names of an own system")
	}

	if _, err := LoadFile(path + ".no"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestDeviceNames(t *testing.T) {
	for device, want := range map[string]string{
		"NVIDIA H200": "h200_sxm", "NVIDIA H100 80GB HBM3": "h100_sxm", "NVIDIA H100 PCIe": "h100_pcie",
		"NVIDIA A100-SXM4-80GB": "a100_sxm", "NVIDIA A100 80GB PCIe": "a100_pcie", "NVIDIA A30": "a30",
		"NVIDIA L4": "l4", "NVIDIA L40S": "l40s", "NVIDIA B200": "b200_sxm", "NVIDIA GB200": "gb200",
		"NVIDIA GB300": "gb300", "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx_pro_6000_server",
		"NVIDIA H200 NVL": "", "NVIDIA A100-SXM4-40GB": "", "Tesla T4": "", "NVIDIA L40": "",
	} {
		if got, _ := ForDevice(device); got != want {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
	}

	for _, name := range List() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if match, known := s.MatchesDevice(s.DeviceName()); !match || !known {
			t.Errorf("%s does not match its own device name %q", name, s.DeviceName())
		}
	}
}

func TestSpeedOfLight(t *testing.T) {
	s, err := Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}

	// A 4096^3 bfloat16 product is compute-bound, a vector copy memory-bound.
	flops := 2.0 * 4096 * 4096 * 4096
	got, ok := s.ComputeSeconds(flops, "bfloat16")
	if want := flops / 989e12; !ok || got != want {
		t.Errorf("gemm: %g, want %g", got, want)
	}

	if got := s.MemorySeconds(4.8e9); got != 1e-3 {
		t.Errorf("copy: %g", got)
	}

	for _, dtype := range []string{"nvfp4", "float32", "fp3"} {
		if _, ok := s.ComputeSeconds(flops, dtype); ok {
			t.Errorf("the spec states no peak for %s", dtype)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range List() {
		src, _ := Source(name)
		f.Add(src)
	}
	f.Add([]byte("gpu:\n  mem_bw: 1e400\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		spec, problems := Parse("f.yaml", src)
		if (spec == nil) == (len(problems) == 0) {
			t.Fatalf("either a spec or problems: %v %v", spec, problems)
		}
	})
}
