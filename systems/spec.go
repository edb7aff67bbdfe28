// Package systems contains the GPU system specs in aiconfigurator's YAML format, and parses,
// validates and queries them. It does not depend on the plan language: Object returns plain Go
// values, which the plan language converts.
package systems

// Spec is one system: a kind of GPU and the node that contains it. Quantities are in the units of
// the file: bytes, bytes per second, FLOP per second, watts, seconds. A quantity that the file
// omits is zero; Has distinguishes it from an explicit zero.
type Spec struct {
	// Name is the file name without its extension.
	Name string
	// File is the path of the spec file, or "<name>.yaml" for a built-in system.
	File string
	// DataDir is the folder of the system's perf tables in a database.
	DataDir string
	GPU     GPU
	Node    Node
	Misc    Misc

	values map[string]any
}

// GPU describes one device.
type GPU struct {
	MemBW float64 // peak, bytes/s
	// MemBWEmpiricalScalingFactor is the fraction of MemBW that kernels reach.
	MemBWEmpiricalScalingFactor float64
	// MemEmpiricalConstantLatency is the fixed cost of a memory-bound kernel in seconds.
	MemEmpiricalConstantLatency float64
	MemCapacity                 int64 // bytes
	BFloat16Flops               float64
	Int8Flops                   float64
	FP8Flops                    float64
	FP4Flops                    float64
	Float32Flops                float64 // of tensor cores
	ScalarFloat32Flops          float64
	Power                       float64 // board power limit, W
	// SMVersion is the compute capability times ten (9.0 is 90), or 0 if there is none.
	SMVersion int
}

// Node describes the machine and its links. Bandwidths are per GPU and direction.
type Node struct {
	NumGPUsPerNode   int
	InterNodeBW      float64
	IntraNodeBW      float64
	PCIeBW           float64
	P2PLatency       float64
	NumGPUsPerRack   int
	InterRackBW      float64
	InterRackLatency float64
}

// Misc contains reserved memory and library versions.
type Misc struct {
	// NCCLMem is the memory in bytes that NCCL reserves, by number of GPUs.
	NCCLMem       map[int]int64
	OtherMem      int64
	NCCLVersion   string
	OneCCLVersion string
}

// Has reports whether the file contains the field with the given path, for example
// "gpu.fp4_tc_flops".
func (s *Spec) Has(path string) bool {
	_, ok := s.values[path]
	return ok
}

// UsableMemory returns the number of bytes that a process can allocate. A driver reserves about one
// percent of the capacity (an H200 with 141 GiB reports 139.8).
func (s *Spec) UsableMemory() int64 {
	return s.GPU.MemCapacity / 100 * 99
}

// Object returns the spec as nested maps with the structure of the file. Every field is also
// available at the top level, together with name and usable_memory, so gpu.mem_bw and mem_bw both
// work. Known fields that the file omits are nil. Values are int64, float64, string, nil and
// map[string]any.
func (s *Spec) Object() map[string]any {
	obj := map[string]any{"name": s.Name, "usable_memory": s.UsableMemory()}
	for _, f := range fields {
		v := s.values[f.path()]
		if f.section == "" {
			obj[f.key] = v
			continue
		}

		sec, ok := obj[f.section].(map[string]any)
		if !ok {
			sec = map[string]any{}
			obj[f.section] = sec
		}

		sec[f.key] = v
		obj[f.key] = v
	}

	return obj
}

// bind fills the typed fields from values.
func (s *Spec) bind() {
	num := func(path string) float64 {
		switch v := s.values[path].(type) {
		case int64:
			return float64(v)
		case float64:
			return v
		}
		return 0
	}
	integer := func(path string) int64 {
		v, _ := s.values[path].(int64)
		return v
	}

	text := func(path string) string {
		v, _ := s.values[path].(string)
		return v
	}

	s.DataDir = text("data_dir")
	s.GPU = GPU{
		MemBW:                       num("gpu.mem_bw"),
		MemBWEmpiricalScalingFactor: num("gpu.mem_bw_empirical_scaling_factor"),
		MemEmpiricalConstantLatency: num("gpu.mem_empirical_constant_latency"),
		MemCapacity:                 integer("gpu.mem_capacity"),
		BFloat16Flops:               num("gpu.bfloat16_tc_flops"),
		Int8Flops:                   num("gpu.int8_tc_flops"),
		FP8Flops:                    num("gpu.fp8_tc_flops"),
		FP4Flops:                    num("gpu.fp4_tc_flops"),
		Float32Flops:                num("gpu.float32_tc_flops"),
		ScalarFloat32Flops:          num("gpu.fp32_flops"),
		Power:                       num("gpu.power"),
		SMVersion:                   int(integer("gpu.sm_version")),
	}

	s.Node = Node{
		NumGPUsPerNode:   int(integer("node.num_gpus_per_node")),
		InterNodeBW:      num("node.inter_node_bw"),
		IntraNodeBW:      num("node.intra_node_bw"),
		PCIeBW:           num("node.pcie_bw"),
		P2PLatency:       num("node.p2p_latency"),
		NumGPUsPerRack:   int(integer("node.num_gpus_per_rack")),
		InterRackBW:      num("node.inter_rack_bw"),
		InterRackLatency: num("node.inter_rack_latency"),
	}

	s.Misc = Misc{
		NCCLMem:       map[int]int64{},
		OtherMem:      integer("misc.other_mem"),
		NCCLVersion:   text("misc.nccl_version"),
		OneCCLVersion: text("misc.oneccl_version"),
	}

	if m, ok := s.values["misc.nccl_mem"].(map[string]any); ok {
		for k, v := range m {
			s.Misc.NCCLMem[atoi(k)], _ = v.(int64)
		}
	}
}
