package telemetry

import (
	"regexp"
	"strings"
)

// Kind determines how readings of a metric are summarized.
type Kind int

// Kinds of metrics.
const (
	Gauge   Kind = iota // a state: statistics over the samples
	Counter             // increases: the sum of increases
	Code                // the last error code: the set of codes
)

// Metric describes a reading. Values are stored in Unit.
type Metric struct {
	Field  string  // DCGM field, as used by exporters
	Name   string  // AIPerf's name
	Label  string  // for people
	Unit   string  // W, J, GB, %, MHz, C, us, count, ...
	Factor float64 // converts from the field's unit if the page does not specify one
	Kind   Kind
}

// Names of metrics used by columns and derived figures.
const (
	Power       = "nvidia_power_usage"
	Energy      = "nvidia_energy_consumption"
	Utilization = "nvidia_gpu_utilization"
	MemoryUsed  = "nvidia_memory_used"
	SMClock     = "nvidia_sm_clock"
	MemClock    = "nvidia_mem_clock"
	Temperature = "nvidia_temperature"
	XID         = "nvidia_xid_errors"
)

const mib = 1.048576e-3 // MiB in GB

// builtin are the built-in metrics.
var builtin = []Metric{
	{"DCGM_FI_DEV_POWER_USAGE", Power, "GPU Power Usage", "W", 1, Gauge},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Energy, "GPU Energy Consumption", "J", 1e-3, Counter},
	{"DCGM_FI_DEV_GPU_UTIL", Utilization, "GPU Utilization", "%", 1, Gauge},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "nvidia_memory_utilization", "GPU Memory Utilization", "%", 1, Gauge},
	{"DCGM_FI_DEV_FB_USED", MemoryUsed, "GPU Memory Used", "GB", mib, Gauge},
	{"DCGM_FI_DEV_FB_FREE", "nvidia_memory_free", "GPU Memory Free", "GB", mib, Gauge},
	{"DCGM_FI_DEV_FB_TOTAL", "nvidia_memory_total", "GPU Memory Total", "GB", mib, Gauge},
	{"DCGM_FI_DEV_SM_CLOCK", SMClock, "SM Clock", "MHz", 1, Gauge},
	{"DCGM_FI_DEV_MEM_CLOCK", MemClock, "Memory Clock", "MHz", 1, Gauge},
	{"DCGM_FI_DEV_GPU_TEMP", Temperature, "GPU Temperature", "C", 1, Gauge},
	{"DCGM_FI_DEV_MEMORY_TEMP", "nvidia_memory_temperature", "GPU Memory Temperature", "C", 1, Gauge},
	{"DCGM_FI_DEV_POWER_MGMT_LIMIT", "nvidia_power_management_limit", "GPU Power Limit", "W", 1, Gauge},
	{"DCGM_FI_DEV_ENC_UTIL", "nvidia_encoder_utilization", "GPU Encoder Utilization", "%", 1, Gauge},
	{"DCGM_FI_DEV_DEC_UTIL", "nvidia_decoder_utilization", "GPU Decoder Utilization", "%", 1, Gauge},
	{"DCGM_FI_PROF_SM_ACTIVE", "nvidia_sm_utilization", "SM Utilization", "%", 100, Gauge},
	{"DCGM_FI_DEV_XID_ERRORS", XID, "XID Errors", "code", 1, Code},
	{"DCGM_FI_DEV_POWER_VIOLATION", "nvidia_power_violation", "Power Violation", "us", 1e-3, Counter},
	{"DCGM_FI_DEV_THERMAL_VIOLATION", "nvidia_thermal_violation", "Thermal Violation", "us", 1e-3, Counter},
}

// units maps the notations in help texts to stored units. Case is significant: mJ is a millijoule, MJ a
// megajoule.
var units = map[string]struct {
	unit   string
	factor float64
}{
	"W": {"W", 1}, "mW": {"W", 1e-3}, "kW": {"W", 1e3},
	"J": {"J", 1}, "mJ": {"J", 1e-3}, "kJ": {"J", 1e3}, "MJ": {"J", 1e6},
	"B": {"GB", 1e-9}, "bytes": {"GB", 1e-9}, "KB": {"GB", 1e-6}, "kB": {"GB", 1e-6}, "MB": {"GB", 1e-3},
	"GB":  {"GB", 1},
	"KiB": {"GB", mib / 1024}, "MiB": {"GB", mib}, "GiB": {"GB", mib * 1024},
	"B/s": {"GB/s", 1e-9}, "KB/s": {"GB/s", 1e-6}, "MB/s": {"GB/s", 1e-3}, "GB/s": {"GB/s", 1},
	"bytes/s": {"GB/s", 1e-9},
	"ns":      {"us", 1e-3}, "us": {"us", 1}, "µs": {"us", 1}, "μs": {"us", 1}, "ms": {"us", 1e3}, "s": {"us", 1e6},
	"Hz": {"MHz", 1e-6}, "kHz": {"MHz", 1e-3}, "MHz": {"MHz", 1}, "GHz": {"MHz", 1e3},
	"%": {"%", 1}, "percent": {"%", 1},
	"C": {"C", 1}, "°C": {"C", 1}, "℃": {"C", 1}, "degree-c": {"C", 1}, "celsius": {"C", 1},
	"count": {"count", 1},
}

var inUnit = regexp.MustCompile(`\(\s*in\s+([^)\s]+)\s*\)`)

// unitOf returns the unit in the help text of a field, such as "(in W)". The profiling fields of DCGM are fractions,
// also in the counter files of older exporters, whose help texts have "(in %)".
func unitOf(field, help string) (unit string, factor float64, ok bool) {
	m := inUnit.FindStringSubmatch(help)
	if m == nil {
		return "", 0, false
	}

	u, ok := units[m[1]]
	if !ok {
		// The case of words is ignored, that of symbols is not.
		u, ok = units[strings.ToLower(m[1])]
		ok = ok && len(m[1]) > 3
	}
	if u.unit == "%" && strings.HasPrefix(field, "DCGM_FI_PROF_") {
		u.factor = 100
	}
	return u.unit, u.factor, ok
}

// custom returns the metric of a field that is not built in.
func custom(field, help string, kind Kind) Metric {
	name := field
	for _, p := range []string{"DCGM_FI_DEV_", "DCGM_FI_PROF_", "DCGM_FI_", "DCGM_EXP_"} {
		if rest, ok := strings.CutPrefix(field, p); ok {
			name = rest
			break
		}
	}

	m := Metric{Field: field, Name: "nvidia_" + strings.ToLower(name), Label: label(help, name), Unit: "count",
		Factor: 1, Kind: kind}
	switch unit, factor, ok := unitOf(field, help); {
	case ok:
		m.Unit, m.Factor = unit, factor
	case strings.HasPrefix(field, "DCGM_FI_PROF_") && kind == Gauge:
		m.Unit, m.Factor = "%", 100 // fractions of time
	}

	return m
}

// label returns the help text before the parenthesis, or else the field name in words.
func label(help, name string) string {
	text, _, _ := strings.Cut(help, "(")
	if text = strings.TrimSpace(text); text != "" {
		return text
	}
	return strings.ToLower(strings.ReplaceAll(name, "_", " "))
}
