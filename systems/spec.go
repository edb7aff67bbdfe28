// Package systems contains the GPU system specs in aiconfigurator's YAML format, and parses,
// validates and queries them. It does not depend on the plan language: Object returns plain Go
// values, which the plan language converts.
package systems

// Spec is one system: a kind of GPU and the node that contains it. Quantities are in the units of
// the file: bytes, bytes per second, FLOP per second, watts, seconds. A quantity that the file
// omits is zero; Has distinguishes it from an explicit zero. Object has the fields that are not listed here.
type Spec struct {
	// Name is the file name without its extension.
	Name string
	GPU  GPU
	Node Node

	values map[string]any
}

// GPU describes one device.
type GPU struct {
	MemBW float64 // peak, bytes/s
	// MemBWEmpiricalScalingFactor is the fraction of MemBW that kernels reach.
	MemBWEmpiricalScalingFactor float64
	MemCapacity                 int64 // bytes
	BFloat16Flops               float64
	Int8Flops                   float64
	FP8Flops                    float64
	FP4Flops                    float64
	Float32Flops                float64 // of tensor cores
	Power                       float64 // board power limit, W
	// SMVersion is the compute capability times ten (9.0 is 90), or 0 if there is none.
	SMVersion int
}

// Node describes the machine and its links. Bandwidths are per GPU and direction.
type Node struct {
	NumGPUsPerNode int
	InterNodeBW    float64
	IntraNodeBW    float64
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
	number := func(path string) float64 {
		switch v := s.values[path].(type) {
		case int64:
			return float64(v)
		case float64:
			return v
		}
		return 0
	}

	s.GPU = GPU{
		MemBW:                       number("gpu.mem_bw"),
		MemBWEmpiricalScalingFactor: number("gpu.mem_bw_empirical_scaling_factor"),
		MemCapacity:                 int64(number("gpu.mem_capacity")),
		BFloat16Flops:               number("gpu.bfloat16_tc_flops"),
		Int8Flops:                   number("gpu.int8_tc_flops"),
		FP8Flops:                    number("gpu.fp8_tc_flops"),
		FP4Flops:                    number("gpu.fp4_tc_flops"),
		Float32Flops:                number("gpu.float32_tc_flops"),
		Power:                       number("gpu.power"),
		SMVersion:                   int(number("gpu.sm_version")),
	}

	s.Node = Node{
		NumGPUsPerNode: int(number("node.num_gpus_per_node")),
		InterNodeBW:    number("node.inter_node_bw"),
		IntraNodeBW:    number("node.intra_node_bw"),
	}
}
