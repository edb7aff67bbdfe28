package systems

// fieldKind is the type of a field's value.
type fieldKind int

const (
	integer  fieldKind = iota
	quantity           // any number
	text
	byGPUs // map from number of GPUs to bytes
)

// field is one key of the format with the plausible range of its value. Only values between lo and
// hi are accepted. scales lists units that are often used by mistake, with the factor to convert
// them.
type field struct {
	section, key string
	kind         fieldKind
	required     bool
	unit         string
	lo, hi       float64
	scales       []scale
}

type scale struct {
	unit   string
	factor float64
}

func (f *field) path() string {
	if f.section == "" {
		return f.key
	}
	return f.section + "." + f.key
}

var (
	bandwidthScales = []scale{{"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}
	memoryScales    = []scale{{"MiB", 1 << 20}, {"GiB", 1 << 30}}
	flopScales      = []scale{{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}
	powerScales     = []scale{{"mW", 1e-3}, {"kW", 1e3}}
	timeScales      = []scale{{"us", 1e-6}, {"ns", 1e-9}}
)

// fields is the format in file order. The ranges are wide: they only detect wrong units, for
// example GB/s instead of bytes/s.
var fields = []*field{
	{key: "data_dir", kind: text, required: true},

	gpu("mem_bw", quantity, true, "bytes/s", 1e11, 1e14, bandwidthScales),
	gpu("mem_bw_empirical_scaling_factor", quantity, true, "a share of 1", 0.05, 1, []scale{{"percent", 0.01}}),
	gpu("mem_empirical_constant_latency", quantity, true, "s", 0, 1e-2, timeScales),
	gpu("mem_capacity", integer, true, "bytes", 1<<32, 1<<42, memoryScales),
	gpu("bfloat16_tc_flops", quantity, true, "FLOP/s", 1e12, 1e17, flopScales),
	gpu("fp32_flops", quantity, false, "FLOP/s", 1e11, 1e17, flopScales),
	gpu("int8_tc_flops", quantity, true, "FLOP/s", 1e12, 1e17, flopScales),
	gpu("fp8_tc_flops", quantity, false, "FLOP/s", 1e12, 1e17, flopScales),
	gpu("fp4_tc_flops", quantity, false, "FLOP/s", 1e12, 1e17, flopScales),
	gpu("float32_tc_flops", quantity, false, "FLOP/s", 1e11, 1e17, flopScales),
	gpu("power", quantity, true, "W", 15, 5000, powerScales),
	gpu("sm_version", integer, false, "compute capability x 10", 50, 200, []scale{{"compute capability", 10}}),

	node("num_gpus_per_node", integer, true, "GPUs", 1, 64, nil),
	node("inter_node_bw", quantity, true, "bytes/s", 1e8, 1e13, bandwidthScales),
	node("intra_node_bw", quantity, true, "bytes/s", 1e9, 1e13, bandwidthScales),
	node("pcie_bw", quantity, true, "bytes/s", 1e9, 1e12, bandwidthScales),
	node("p2p_latency", quantity, true, "s", 0, 1e-2, timeScales),
	node("num_gpus_per_rack", integer, false, "GPUs", 1, 4096, nil),
	node("inter_rack_bw", quantity, false, "bytes/s", 1e8, 1e13, bandwidthScales),
	node("inter_rack_latency", quantity, false, "s", 0, 1e-2, timeScales),

	{section: "misc", key: "nccl_mem", kind: byGPUs, required: true, unit: "bytes", lo: 1 << 20, hi: 1 << 37,
		scales: memoryScales},
	{section: "misc", key: "other_mem", kind: integer, required: true, unit: "bytes", lo: 1 << 20, hi: 1 << 37,
		scales: memoryScales},
	{section: "misc", key: "nccl_version", kind: text, required: true},
	{section: "misc", key: "oneccl_version", kind: text},
}

func gpu(key string, k fieldKind, required bool, unit string, lo, hi float64, scales []scale) *field {
	return &field{"gpu", key, k, required, unit, lo, hi, scales}
}

func node(key string, k fieldKind, required bool, unit string, lo, hi float64, scales []scale) *field {
	return &field{"node", key, k, required, unit, lo, hi, scales}
}

// sections are the mappings of the format.
var sections = []string{"gpu", "node", "misc"}

func fieldOf(section, key string) *field {
	for _, f := range fields {
		if f.section == section && f.key == key {
			return f
		}
	}
	return nil
}

// keysOf returns the keys allowed in a section; "" is the top level of the file.
func keysOf(section string) []string {
	var keys []string
	for _, f := range fields {
		if f.section == section {
			keys = append(keys, f.key)
		}
	}

	if section == "" {
		keys = append(keys, sections...)
	}

	return keys
}
