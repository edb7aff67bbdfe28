// Package systems contains the GPU system specs in aiconfigurator's YAML format, and parses,
// validates and queries them. It does not depend on the plan language: Object returns plain Go
// values, which the plan language converts.
package systems

import "encoding/json"

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
	MemBW float64 `json:"mem_bw"` // peak, bytes/s
	// MemBWEmpiricalScalingFactor is the fraction of MemBW that kernels reach.
	MemBWEmpiricalScalingFactor float64 `json:"mem_bw_empirical_scaling_factor"`
	MemCapacity                 int64   `json:"mem_capacity"` // bytes
	BFloat16Flops               float64 `json:"bfloat16_tc_flops"`
	Int8Flops                   float64 `json:"int8_tc_flops"`
	FP8Flops                    float64 `json:"fp8_tc_flops"`
	FP4Flops                    float64 `json:"fp4_tc_flops"`
	Float32Flops                float64 `json:"float32_tc_flops"` // of tensor cores
	Power                       float64 `json:"power"`            // board power limit, W
	// SMVersion is the compute capability times ten (9.0 is 90), or 0 if there is none.
	SMVersion int `json:"sm_version"`
}

// Node describes the machine and its links. Bandwidths are per GPU and direction.
type Node struct {
	NumGPUsPerNode int     `json:"num_gpus_per_node"`
	InterNodeBW    float64 `json:"inter_node_bw"`
	IntraNodeBW    float64 `json:"intra_node_bw"`
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
	for _, f := range fields() {
		v := s.values[f.path()]
		if f.Section == "" {
			obj[f.Key] = v
			continue
		}

		sec, ok := obj[f.Section].(map[string]any)
		if !ok {
			sec = map[string]any{}
			obj[f.Section] = sec
		}

		sec[f.Key] = v
		obj[f.Key] = v
	}

	return obj
}

// bind fills the typed fields from values.
func (s *Spec) bind() error {
	raw, err := json.Marshal(s.Object())
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, s)
}
