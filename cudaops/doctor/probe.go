package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"text/template"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/ops"
	"aicplan/sink/base/textutil"
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
	PowerWatts  float64
	MemoryBytes int64

	// Measured values.
	CopyBytesPerSecond float64 // read and written
	SmallCopySeconds   float64 // time of a copy of a few bytes
	GemmFlops          float64 // bfloat16, FLOP/s
	PeerBytesPerSecond float64 // to another device, one direction; 0 with one device
}

// SpecValue is one field of the spec.
type SpecValue struct {
	Section string `json:"section,omitempty"`
	Key     string `json:"key"`
	// Value is nil if unknown.
	Value  any    `json:"value"`
	Source string `json:"source"`
	Note   string `json:"note,omitempty"`

	unit string // note of an unknown value
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
		f.MemoryMHz = c.MaxMem
	}

	if p, err := dev.Power(); err == nil {
		f.PowerWatts = p.Limit
	}

	if m, err := dev.Memory(); err == nil {
		f.MemoryBytes = m.Total
	}

	return f, nil
}

// SystemSpec converts facts to the fields of a system spec, in the order of the file. A value that is zero is
// that of the shipped spec of the device, or unknown.
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

	for _, v := range found(f, known) {
		number, isNumber := v.Value.(float64)
		missing := v.Value == nil || isNumber && number <= 0
		if missing && v.Value != nil {
			v.Note = ""
		}

		switch {
		case !missing:
		case known == nil:
			v.Value, v.Source, v.Note = nil, Unknown, v.unit+v.Note
		case known.Has(v.Section + "." + v.Key):
			v.Value, v.Source, v.Note = known.Object()[v.Key], LookedUp, "from "+known.Name+v.Note
		default:
			continue // devices of this kind do not have it
		}
		r.Values = append(r.Values, v)
	}

	return r, nil
}

// found returns the fields of a spec as far as the facts contain them. The note of a field that was not probed is
// appended to that of the shipped spec.
func found(f Facts, known *systems.Spec) []SpecValue {
	peak := 2 * float64(f.MemoryMHz) * 1e6 * float64(f.BusBits) / 8
	bandwidth := round(peak, 3)
	if peak <= 0 && known != nil {
		peak = known.GPU.MemBW
	}

	share := 0.0
	if peak > 0 {
		share = round(math.Min(1, f.CopyBytesPerSecond/peak), 3)
	}

	product, peer := "", ""
	if f.GemmFlops > 0 {
		product = fmt.Sprintf("; a product reached %.0f TFLOP/s", f.GemmFlops/1e12)
	}
	if f.PeerBytesPerSecond > 0 {
		peer = fmt.Sprintf("; a copy to another device moved %.0f GB/s", f.PeerBytesPerSecond/1e9)
	}

	clock := fmt.Sprintf("bytes/s: %d bits at %d MHz, both edges", f.BusBits, f.MemoryMHz)
	copied := fmt.Sprintf("a copy moved %.0f GB/s", f.CopyBytesPerSecond/1e9)
	small := round(f.SmallCopySeconds, 2)
	return []SpecValue{
		{"gpu", "mem_bw", bandwidth, Read, clock, "bytes/s; the driver did not report the memory clock"},
		{"gpu", "mem_bw_empirical_scaling_factor", share, Measured, copied, "share of mem_bw that kernels reach"},
		{"gpu", "mem_empirical_constant_latency", small, Measured, "s: a copy of 16 bytes in a graph", "s"},
		{"gpu", "mem_capacity", f.MemoryBytes, Read, "bytes", ""},
		{"gpu", "bfloat16_tc_flops", nil, "", product, "FLOP/s"},
		{"gpu", "int8_tc_flops", nil, "", "", "FLOP/s, dense"},
		{"gpu", "fp8_tc_flops", nil, "", "", "FLOP/s, dense"},
		{"gpu", "fp4_tc_flops", nil, "", "", "FLOP/s, dense"},
		{"gpu", "float32_tc_flops", nil, "", "", "FLOP/s, dense"},
		{"gpu", "power", f.PowerWatts, Read, "W, the enforced limit", "W"},
		{"gpu", "sm_version", f.Info.SM(), Read, "compute capability x 10", ""},
		{"node", "num_gpus_per_node", f.Devices, Read, "devices that this process sees", ""},
		{"node", "inter_node_bw", nil, "", "", "bytes/s per GPU"},
		{"node", "intra_node_bw", nil, "", peer, "bytes/s per GPU"},
		{"node", "pcie_bw", nil, "", "", "bytes/s"},
		{"node", "p2p_latency", nil, "", "", "s"},
		{"misc", "nccl_mem", nil, "", "", "bytes reserved by NCCL, by number of GPUs"},
		{"misc", "other_mem", nil, "", "", "bytes"},
		{"misc", "nccl_version", nil, "", "", ""},
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

//go:embed probed.txt
var probedText string

// YAML writes the spec in the format of system files. Unknown fields are commented out, so loading the file
// reports them as missing until they are filled in.
func (r *Probed) YAML(w io.Writer, dataDir string) error {
	return textutil.Fill(w, probedText, r, template.FuncMap{
		"folder": func() string { return dataDir },
		"scalar": func(v any) string {
			switch v := v.(type) {
			case string:
				return " '" + v + "'"
			case float64:
				return " " + strconv.FormatFloat(v, 'f', -1, 64)
			case map[string]any, nil:
				return ""
			}
			return fmt.Sprint(" ", v)
		},
		"counts": func(v any) map[int]any {
			out := map[int]any{}
			numbers, _ := v.(map[string]any)
			for gpus, bytes := range numbers {
				n, _ := strconv.Atoi(gpus) // systems accepts numbers only
				out[n] = bytes
			}
			return out
		},
	})
}
