package telemetry

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Kind determines how readings of a metric are summarized.
type Kind string

// Kinds of metrics.
const (
	Gauge   Kind = "gauge"   // a state: statistics over the samples
	Counter Kind = "counter" // increases: the sum of increases
	Code    Kind = "code"    // the last error code: the set of codes
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

//go:embed metrics.json
var knownJSON []byte

// known returns the built-in metrics and, by stored unit, the notations in help texts with their factors. The case of
// notations is significant: mJ is a millijoule, MJ a megajoule.
var known = sync.OnceValue(func() (k struct {
	Metrics []Metric
	Units   map[string]map[string]float64
}) {
	if err := json.Unmarshal(knownJSON, &k); err != nil {
		panic("telemetry: metrics.json: " + err.Error())
	}
	return k
})

var inUnit = regexp.MustCompile(`\(\s*in\s+([^)\s]+)\s*\)`)

// unitOf returns the unit in the help text of a field, such as "(in W)". The profiling fields of DCGM are fractions,
// also in the counter files of older exporters, whose help texts have "(in %)".
func unitOf(field, help string) (unit string, factor float64, ok bool) {
	m := inUnit.FindStringSubmatch(help)
	if m == nil {
		return "", 0, false
	}

	for unit, notations := range known().Units {
		factor, ok := notations[m[1]]
		if !ok && len(m[1]) > 3 { // the case of words is ignored, that of symbols is not
			factor, ok = notations[strings.ToLower(m[1])]
		}
		if !ok {
			continue
		}

		if unit == "%" && strings.HasPrefix(field, "DCGM_FI_PROF_") {
			factor = 100
		}
		return unit, factor, true
	}

	return "", 0, false
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

// Set is a list of metrics with different fields: built-in ones first, then those of files.
type Set []Metric

// Builtin returns the built-in metrics.
func Builtin() Set { return slices.Clone(known().Metrics) }

// AddCSV adds the fields of a counter file in the DCGM exporter's format: FIELD, gauge|counter, help text.
// It skips blank lines and lines that start with #. Types and units of the file override the built-in ones.
// Errors contain the line number.
func (s *Set) AddCSV(r io.Reader, name string) error {
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(sc.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}

		parts := strings.SplitN(line, ",", 3)
		if len(parts) < 3 {
			return fmt.Errorf("%s:%d: a line is DCGM_FIELD, gauge or counter, help text", name, n)
		}

		field, typ, help := strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]),
			strings.Trim(strings.TrimSpace(parts[2]), `"`)
		if !strings.HasPrefix(field, "DCGM_FI_") && !strings.HasPrefix(field, "DCGM_EXP_") {
			return fmt.Errorf("%s:%d: %q is no DCGM field: it starts with DCGM_FI_ or DCGM_EXP_", name, n, field)
		}

		switch kind := Kind(typ); kind {
		case Gauge, Counter:
			s.add(field, help, kind)
		case "label": // text values
		default:
			return fmt.Errorf("%s:%d: the type of %s is %q; known are gauge, counter and label", name, n, field, typ)
		}
	}

	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	return nil
}

func (s *Set) add(field, help string, kind Kind) {
	i := slices.IndexFunc(*s, func(m Metric) bool { return m.Field == field })
	if i < 0 {
		*s = append(*s, custom(field, help, kind))
		return
	}

	m := &(*s)[i]
	if m.Kind != Code {
		m.Kind = kind
	}

	if unit, factor, ok := unitOf(field, help); ok {
		m.Unit, m.Factor = unit, factor
	}
}
