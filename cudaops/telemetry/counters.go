package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Set is a set of metrics with different fields.
type Set struct {
	metrics []Metric // in order: built-in ones first, then those of files
}

// Builtin returns the built-in metrics.
func Builtin() *Set { return &Set{slices.Clone(known().Metrics)} }

// Metrics returns the metrics of the set in order. Callers must not change them.
func (s *Set) Metrics() []Metric { return s.metrics }

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
	i := slices.IndexFunc(s.metrics, func(m Metric) bool { return m.Field == field })
	if i < 0 {
		s.metrics = append(s.metrics, custom(field, help, kind))
		return
	}

	m := &s.metrics[i]
	if m.Kind != Code {
		m.Kind = kind
	}

	if unit, factor, ok := unitOf(field, help); ok {
		m.Unit, m.Factor = unit, factor
	}
}
