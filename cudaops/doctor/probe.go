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

	return r, nil
}

// field adds a value with its source. If the value is zero, it adds that of the shipped spec, or unknown with
// the given note.
func (r *Probed) field(known *systems.Spec, section, key string, value any, source, note, unit string) {
	if number, ok := value.(float64); value == nil || ok && number <= 0 {
		value, source, note = nil, Unknown, unit
		if known != nil && known.Has(section+"."+key) {
			if m, ok := known.Object()[section].(map[string]any); ok {
				value, source, note = m[key], LookedUp, "from "+known.Name
			}
		}
	}
	r.Values = append(r.Values, SpecValue{Section: section, Key: key, Value: value, Source: source, Note: note})
}

func (r *Probed) gpu(f Facts, known *systems.Spec) {
	peak := 2 * float64(f.MemoryMHz) * 1e6 * float64(f.BusBits) / 8
	r.field(known, "gpu", "mem_bw", round(peak, 3), Read,
		fmt.Sprintf("bytes/s: %d bits at %d MHz, both edges", f.BusBits, f.MemoryMHz),
		"bytes/s; the driver did not report the memory clock")
	if peak <= 0 {
		peak = r.number("gpu", "mem_bw")
	}

	share := 0.0
	if peak > 0 {
		share = round(math.Min(1, f.CopyBytesPerSecond/peak), 3)
	}
	r.field(known, "gpu", "mem_bw_empirical_scaling_factor", share, Measured,
		fmt.Sprintf("a copy moved %.0f GB/s", f.CopyBytesPerSecond/1e9), "share of mem_bw that kernels reach")
	r.field(known, "gpu", "mem_empirical_constant_latency", round(f.SmallCopySeconds, 2), Measured,
		"s: a copy of 16 bytes in a graph", "s")
	r.field(known, "gpu", "mem_capacity", f.MemoryBytes, Read, "bytes", "")

	reached := ""
	if f.GemmFlops > 0 {
		reached = fmt.Sprintf("; a product reached %.0f TFLOP/s", f.GemmFlops/1e12)
	}
	r.field(known, "gpu", "bfloat16_tc_flops", nil, "", "", "FLOP/s"+reached)
	r.note("gpu", "bfloat16_tc_flops", reached)

	for _, key := range []string{"int8_tc_flops", "fp8_tc_flops", "fp4_tc_flops", "float32_tc_flops"} {
		if known == nil || known.Has("gpu."+key) {
			r.field(known, "gpu", key, nil, "", "", "FLOP/s, dense")
		}
	}

	r.field(known, "gpu", "power", f.PowerWatts, Read, "W, the enforced limit", "W")
	r.field(known, "gpu", "sm_version", f.Info.SM(), Read, "compute capability x 10", "")
}

// node adds the fields of the node and those of the libraries.
func (r *Probed) node(f Facts, known *systems.Spec) {
	r.field(known, "node", "num_gpus_per_node", f.Devices, Read, "devices that this process sees", "")
	for _, x := range [][3]string{
		{"node", "inter_node_bw", "bytes/s per GPU"}, {"node", "intra_node_bw", "bytes/s per GPU"},
		{"node", "pcie_bw", "bytes/s"}, {"node", "p2p_latency", "s"},
		{"misc", "nccl_mem", "bytes reserved by NCCL, by number of GPUs"}, {"misc", "other_mem", "bytes"}, {"misc", "nccl_version", ""},
	} {
		r.field(known, x[0], x[1], nil, "", "", x[2])
	}

	if f.PeerBytesPerSecond > 0 {
		r.note("node", "intra_node_bw", fmt.Sprintf("; a copy to another device moved %.0f GB/s",
			f.PeerBytesPerSecond/1e9))
	}
}

func (r *Probed) number(section, key string) float64 {
	for _, v := range r.Values {
		if v.Section != section || v.Key != key {
			continue
		}
		switch x := v.Value.(type) {
		case float64:
			return x
		case int64:
			return float64(x)
		}
	}
	return 0
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
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
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
