package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/ops"
	"aicplan/systems"
)

// Sources of a value.
const (
	Measured = "measured"
	Read     = "read"      // from the driver
	LookedUp = "looked up" // from the shipped spec of the same device
	Unknown  = "unknown"
)

// Facts are the results of the probe.
type Facts struct {
	Info        cuda.DeviceInfo
	Devices     int
	BusBits     int
	MemoryMHz   int // memory clock; data is transferred on both edges
	MaxSMMHz    int
	PowerWatts  float64
	MemoryBytes int64

	// Measured values.
	CopyBytesPerSecond float64 // read and written
	SmallCopySeconds   float64 // time of a copy of a few bytes
	GemmFlops          float64 // bfloat16, FLOP/s
	PeerBytesPerSecond float64 // to another device, one direction; 0 with one device
}

// Value is one field of the spec.
type SpecValue struct {
	Section string `json:"section,omitempty"`
	Key     string `json:"key"`
	// Value is nil if unknown.
	Value  any    `json:"value"`
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`
}

// Probed is a spec generated from a machine.
type Probed struct {
	Device string      `json:"device"`
	Known  string      `json:"known_system,omitempty"` // name of the shipped spec of the device
	Values []SpecValue `json:"values"`
}

// Measure opens a device and measures it. If NVML is not available, the facts from it remain unknown.
func Measure(ctx context.Context, index int) (Facts, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var f Facts
	d, err := ops.Open(ops.OpenOptions{Index: index})
	if err != nil {
		return f, err
	}
	defer d.Close()
	f.Info, f.MemoryBytes = d.Info, d.Info.MemoryBytes
	api := d.Lib.Driver

	if f.Devices, err = api.Count(); err != nil {
		return f, err
	}

	if f.BusBits, err = api.Attribute(cuda.Device(index), cuda.AttrMemoryBusWidth); err != nil {
		return f, err
	}

	t, err := d.CheckTiming(ctx)
	if err != nil {
		return f, err
	}

	if len(t.Problems) > 0 {
		return f, fmt.Errorf("the timing of this device cannot be right: %s", t.Problems[0])
	}

	f.CopyBytesPerSecond, f.GemmFlops = t.CopyGBps*1e9, t.GemmTFLOPs*1e12
	if f.SmallCopySeconds, f.PeerBytesPerSecond, err = d.ProbeCopies(ctx); err != nil {
		return f, err
	}

	lib, err := nvml.Open()
	if err != nil {
		return f, nil
	}
	dev, err := nvml.Find(lib, d.Info.UUID)
	if err != nil {
		return f, nil
	}

	if c, err := dev.Clocks(); err == nil {
		f.MemoryMHz, f.MaxSMMHz = c.MaxMem, c.MaxSM
	}

	if p, err := dev.Power(); err == nil {
		f.PowerWatts = p.Limit
	}

	if m, err := dev.Memory(); err == nil {
		f.MemoryBytes = m.Total
	}

	return f, nil
}

// Spec converts facts to the fields of a system spec, in the order of the file.
func SystemSpec(f Facts) (*Probed, error) {
	if f.Info.Name == "" {
		return nil, errors.New("no device was probed")
	}

	r := &Probed{Device: f.Info.Name}
	var known *systems.Spec
	if name, ok := systems.ForDevice(f.Info.Name); ok {
		s, err := systems.Load(name)
		if err != nil {
			return nil, err
		}
		r.Known, known = name, s
	}

	r.gpu(f, known)
	r.node(f, known)
	r.misc(known)

	return r, nil
}

func (r *Probed) add(section, key string, value any, source, note string) {
	r.Values = append(r.Values, SpecValue{Section: section, Key: key, Value: value, Source: source, Note: note})
}

// lookUp adds a field from the shipped spec, or as unknown.
func (r *Probed) lookUp(known *systems.Spec, section, key, unknown string) {
	if known != nil && known.Has(section+"."+key) {
		if m, ok := known.Object()[section].(map[string]any); ok {
			r.add(section, key, m[key], LookedUp, "from "+known.Name)
			return
		}
	}
	r.add(section, key, nil, Unknown, unknown)
}

func (r *Probed) gpu(f Facts, known *systems.Spec) {
	peak := 2 * float64(f.MemoryMHz) * 1e6 * float64(f.BusBits) / 8
	if peak > 0 {
		r.add("gpu", "mem_bw", round(peak, 3), Read,
			fmt.Sprintf("bytes/s: %d bits at %d MHz, both edges", f.BusBits, f.MemoryMHz))
	} else {
		r.lookUp(known, "gpu", "mem_bw", "bytes/s; the driver did not report the memory clock")
		if v, ok := r.number("gpu", "mem_bw"); ok {
			peak = v
		}
	}

	if peak > 0 && f.CopyBytesPerSecond > 0 {
		r.add("gpu", "mem_bw_empirical_scaling_factor", round(math.Min(1, f.CopyBytesPerSecond/peak), 3), Measured,
			fmt.Sprintf("a copy moved %.0f GB/s", f.CopyBytesPerSecond/1e9))
	} else {
		r.lookUp(known, "gpu", "mem_bw_empirical_scaling_factor", "share of mem_bw that kernels reach")
	}

	if f.SmallCopySeconds > 0 {
		r.add("gpu", "mem_empirical_constant_latency", round(f.SmallCopySeconds, 2), Measured,
			"s: a copy of 16 bytes in a graph")
	} else {
		r.lookUp(known, "gpu", "mem_empirical_constant_latency", "s")
	}

	r.add("gpu", "mem_capacity", f.MemoryBytes, Read, "bytes")
	r.lookUp(known, "gpu", "bfloat16_tc_flops", "FLOP/s"+reached(f))
	r.note("gpu", "bfloat16_tc_flops", reached(f))

	for _, key := range []string{"int8_tc_flops", "fp8_tc_flops", "fp4_tc_flops", "float32_tc_flops"} {
		if known == nil || known.Has("gpu."+key) {
			r.lookUp(known, "gpu", key, "FLOP/s, dense")
		}
	}

	if f.PowerWatts > 0 {
		r.add("gpu", "power", f.PowerWatts, Read, "W, the enforced limit")
	} else {
		r.lookUp(known, "gpu", "power", "W")
	}

	r.add("gpu", "sm_version", f.Info.SM(), Read, "compute capability x 10")
}

func reached(f Facts) string {
	if f.GemmFlops <= 0 {
		return ""
	}
	return fmt.Sprintf("; a product reached %.0f TFLOP/s", f.GemmFlops/1e12)
}

func (r *Probed) node(f Facts, known *systems.Spec) {
	r.add("node", "num_gpus_per_node", f.Devices, Read, "devices that this process sees")
	r.lookUp(known, "node", "inter_node_bw", "bytes/s per GPU")
	r.lookUp(known, "node", "intra_node_bw", "bytes/s per GPU")
	if f.PeerBytesPerSecond > 0 {
		r.note("node", "intra_node_bw", fmt.Sprintf("; a copy to another device moved %.0f GB/s",
			f.PeerBytesPerSecond/1e9))
	}

	for _, key := range []string{"pcie_bw", "p2p_latency"} {
		r.lookUp(known, "node", key, map[string]string{"pcie_bw": "bytes/s", "p2p_latency": "s"}[key])
	}
}

func (r *Probed) misc(known *systems.Spec) {
	for _, key := range []string{"nccl_mem", "other_mem", "nccl_version"} {
		r.lookUp(known, "misc", key, map[string]string{"nccl_mem": "bytes reserved by NCCL, by number of GPUs",
			"other_mem": "bytes"}[key])
	}
}

func (r *Probed) number(section, key string) (float64, bool) {
	for _, v := range r.Values {
		if v.Section == section && v.Key == key {
			switch x := v.Value.(type) {
			case float64:
				return x, true
			case int64:
				return float64(x), true
			}
		}
	}
	return 0, false
}

// note appends to the note of a known field.
func (r *Probed) note(section, key, text string) {
	for i := range r.Values {
		if v := &r.Values[i]; v.Section == section && v.Key == key && v.Source != Unknown {
			v.Note += text
		}
	}
}

// round rounds to a number of significant digits.
func round(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}

	text := strconv.FormatFloat(v, 'e', digits-1, 64)
	out, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return v
	}
	return out
}

// YAML writes the spec in the format of system files. Unknown fields are commented out, so loading the file
// reports them as missing until they are filled in.
func (r *Probed) YAML(w io.Writer, dataDir string) error {
	fmt.Fprintf(w, "# %s, probed; the comment of a value is its source\n", r.Device)
	fmt.Fprintf(w, "data_dir: %s\n", dataDir)
	section := ""

	for _, v := range r.Values {
		if v.Section != section {
			section = v.Section
			fmt.Fprintf(w, "%s:\n", section)
		}

		comment := v.Source
		if v.Note != "" {
			comment += ", " + v.Note
		}

		switch x := v.Value.(type) {
		case nil:
			fmt.Fprintf(w, "  # %s: # %s\n", v.Key, comment)
		case map[string]any:
			fmt.Fprintf(w, "  %s: # %s\n", v.Key, comment)
			writeCounts(w, x)
		case string:
			fmt.Fprintf(w, "  %s: '%s' # %s\n", v.Key, x, comment)
		case float64:
			fmt.Fprintf(w, "  %s: %s # %s\n", v.Key, strconv.FormatFloat(x, 'f', -1, 64), comment)
		default:
			fmt.Fprintf(w, "  %s: %v # %s\n", v.Key, x, comment)
		}
	}

	return nil
}

func writeCounts(w io.Writer, m map[string]any) {
	for n := range 1025 {
		if v, ok := m[strconv.Itoa(n)]; ok {
			fmt.Fprintf(w, "    %d: %v\n", n, v)
		}
	}
}
