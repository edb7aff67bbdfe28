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

// Options are the attributes of a runtime block of kind cuda.
type Options struct {
	// Peaks come from the option system: the name of a system spec, or an object
	// with its fields mem_bw, bfloat16_tc_flops, fp8_tc_flops, int8_tc_flops,
	// float32_tc_flops, intra_node_bw and power.
	Peaks Peaks
	// ArenaBytes is the operand memory of a worker; 0 chooses.
	ArenaBytes int64
	// Window is how many cases a worker holds.
	Window int
	// Verify compares every case's output with a reference in higher precision
	// before it is measured.
	Verify bool
}

const defaultWindow = 192

// parseOptions reads the runtime's options; unknown ones are errors.
func parseOptions(raw map[string]any) (Options, error) {
	o := Options{Window: defaultWindow}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		v := raw[name]
		whole := func(least, most float64) (float64, error) {
			f, ok := asFloat(v)
			if !ok || f != float64(int64(f)) || f < least || f > most {
				return 0, fmt.Errorf("option %s is %v; it must be a whole number from %v to %v", name, v, least, most)
			}
			return f, nil
		}
		var f float64
		var err error
		switch name {
		case "system":
			o.Peaks, err = parseSystem(v)
		case "window":
			f, err = whole(1, 4096)
			o.Window = int(f)
		case "arena_gb":
			a, ok := asFloat(v)
			if !ok || a < 0.25 || a > 4096 {
				err = fmt.Errorf("option arena_gb is %v; it must be a number of GiB of at least 0.25", v)
			}
			o.ArenaBytes = int64(a * (1 << 30))
		case "verify":
			b, ok := v.(bool)
			if !ok {
				err = fmt.Errorf("option verify is %v; it must be true or false", v)
			}
			o.Verify = b
		default:
			err = fmt.Errorf("a runtime of kind cuda has no option %q", name)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// parseSystem turns a spec's name or fields into peaks.
func parseSystem(v any) (Peaks, error) {
	switch v := v.(type) {
	case string:
		s, err := systems.Load(v)
		if err != nil {
			return Peaks{}, fmt.Errorf("option system: %w", err)
		}
		return PeaksOf(s), nil
	case map[string]any:
		get := func(name string) float64 {
			f, _ := asFloat(v[name])
			return f
		}
		p := peaks(get("mem_bw"), get("bfloat16_tc_flops"), get("fp8_tc_flops"), get("int8_tc_flops"),
			get("float32_tc_flops"))
		p.Link, p.Watts = get("intra_node_bw"), get("power")
		if p.MemBW <= 0 {
			return p, fmt.Errorf("option system: mem_bw is %v; give the system's name or its fields", v["mem_bw"])
		}
		return p, nil
	}
	return Peaks{}, fmt.Errorf("option system is %v; it must be the name of a system spec or an object with its fields",
		v)
}

func peaks(bw, bf16, fp8, int8, f32 float64) Peaks {
	p := Peaks{MemBW: bw, Flops: map[DType]float64{}}
	for t, f := range map[DType]float64{BFloat16: bf16, Float16: bf16, FP8: fp8, Int8: int8, Float32: f32} {
		if f > 0 {
			p.Flops[t] = f
		}
	}
	return p
}

// PeaksOf takes the peaks from a system spec.
func PeaksOf(s *systems.Spec) Peaks {
	p := peaks(s.GPU.MemBW, s.GPU.BFloat16Flops, s.GPU.FP8Flops, s.GPU.Int8Flops, s.GPU.Float32Flops)
	p.Link, p.Watts = s.Node.IntraNodeBW, s.GPU.Power
	return p
}

// settings are what configure changes between stages.
type settings struct {
	measure  measure.Settings
	bindings map[string]*KernelBinding
	seed     int64
}

func parseSettings(init worker.Init) (settings, error) {
	s := settings{measure: measure.Defaults(), seed: init.Seed, bindings: map[string]*KernelBinding{}}
	if len(init.Measure) > 0 {
		d := json.NewDecoder(bytes.NewReader(init.Measure))
		d.DisallowUnknownFields()
		if err := d.Decode(&s.measure); err != nil {
			return s, fmt.Errorf("measure settings: %w", err)
		}
	}
	if err := s.measure.Validate(); err != nil {
		return s, fmt.Errorf("measure settings: %w", err)
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

// opNames lists the ops that a host answers for.
func (s settings) opNames() []string {
	names := slices.Clone(Names)
	for op := range s.bindings {
		if !slices.Contains(names, op) {
			names = append(names, op)
		}
	}
	slices.Sort(names)
	return names
}
