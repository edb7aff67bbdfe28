package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/systems"
)

// options are the options of a runtime of kind cuda.
type options struct {
	Window  int
	Verify  bool
	ArenaGB float64
	System  any

	// peaks are those of System. arena is the operand memory of a worker in bytes; 0 means ArenaBytes of the
	// free memory.
	peaks Peaks
	arena int64
}

// Options returns the options of runtimes of kind cuda.
func Options() []worker.Option { return new(options).declare() }

func (o *options) declare() []worker.Option {
	return []worker.Option{
		{Name: "arena_gb", Into: &o.ArenaGB, Min: 0.25, Max: 4096, DefaultDoc: "less than half of the free memory",
			Doc: "memory for operands in GiB"},
		{Name: "system", Into: &o.System,
			Doc: "the name of a system, or an object with its peaks, for `achieved_fraction`"},
		{Name: "verify", Into: &o.Verify, Default: false, NotInKey: true,
			Doc: "compares every case's result with a reference in higher precision"},
		{Name: "window", Into: &o.Window, Default: 192, Min: 1, Max: 4096, NotInKey: true,
			Doc: "cases that a worker keeps at a time"},
	}
}

func parseOptions(values map[string]any) (options, error) {
	var o options
	err := worker.Decode(o.declare(), values)
	if err == nil && o.System != nil {
		o.peaks, err = parseSystem(o.System)
	}

	o.arena = int64(o.ArenaGB * (1 << 30))
	return o, err
}

// parseSystem returns the peaks of a system, which is the name of a spec or an object with its fields mem_bw,
// bfloat16_tc_flops, fp8_tc_flops, int8_tc_flops, float32_tc_flops and power.
func parseSystem(v any) (Peaks, error) {
	switch v := v.(type) {
	case string:
		s, err := systems.Load(v)
		if err != nil {
			return Peaks{}, fmt.Errorf("option system: %w", err)
		}

		return PeaksOf(s.GPU), nil
	case map[string]any:
		var g systems.GPU
		raw, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(raw, &g)
		}
		if err == nil && g.MemBW <= 0 {
			err = fmt.Errorf("mem_bw is %v; give the system's name or its fields", v["mem_bw"])
		}
		if err != nil {
			return Peaks{}, fmt.Errorf("option system: %w", err)
		}

		return PeaksOf(g), nil
	}

	return Peaks{}, fmt.Errorf("option system is %v; it must be the name of a system spec or an object with its fields",
		v)
}

// PeaksOf returns the peaks of a device of a system.
func PeaksOf(g systems.GPU) Peaks {
	return Peaks{MemBW: g.MemBW, Watts: g.Power, Flops: map[DType]float64{
		BFloat16: g.BFloat16Flops, Float16: g.BFloat16Flops, FP8: g.FP8Flops, Int8: g.Int8Flops, Float32: g.Float32Flops,
	}}
}

// settings are the settings that change between stages.
type settings struct {
	measure  measure.Settings
	bindings map[string]*KernelBinding
	seed     int64
}

func parseSettings(init worker.Init) (settings, error) {
	var err error
	s := settings{seed: init.Seed, bindings: map[string]*KernelBinding{}}
	if s.measure, err = measure.ReadSettings(init.Measure); err != nil {
		return s, err
	}

	if len(init.Ops) > 0 && !bytes.Equal(bytes.TrimSpace(init.Ops), []byte("null")) {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(init.Ops, &raw); err != nil {
			return s, fmt.Errorf("op bindings: %w", err)
		}

		for _, op := range slices.Sorted(maps.Keys(raw)) {
			b, err := parseBinding(raw[op])
			if err != nil {
				return s, fmt.Errorf("op %s: %w", op, err)
			}

			s.bindings[op] = b
		}
	}

	return s, nil
}

// names returns the ops of a host.
func (s settings) names() []string {
	names := opNames()
	for op := range s.bindings {
		if !slices.Contains(names, op) {
			names = append(names, op)
		}
	}

	slices.Sort(names)
	return names
}
