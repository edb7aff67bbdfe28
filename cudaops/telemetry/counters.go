package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Set is a set of metrics by field name.
type Set struct {
	byField map[string]Metric
	order   []string // in order: built-in fields first, then those of files
}

// Builtin returns the built-in metrics.
func Builtin() *Set {
	s := &Set{byField: map[string]Metric{}}
	for _, m := range builtin {
		s.put(m)
	}
	return s
}

func (s *Set) put(m Metric) {
	if _, ok := s.byField[m.Field]; !ok {
		s.order = append(s.order, m.Field)
	}
	s.byField[m.Field] = m
}

// Metrics returns the metrics of the set in order.
func (s *Set) Metrics() []Metric {
	out := make([]Metric, len(s.order))
	for i, f := range s.order {
		out[i] = s.byField[f]
	}
	return out
}

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

		kind := Gauge
		switch typ {
		case "gauge":
		case "counter":
			kind = Counter
		case "label":
			continue // text values
		default:
			return fmt.Errorf("%s:%d: the type of %s is %q; known are gauge, counter and label", name, n, field, typ)
		}

		s.add(field, help, kind)
	}

	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	return nil
}

func (s *Set) add(field, help string, kind Kind) {
	m, known := s.byField[field]
	if !known {
		s.put(custom(field, help, kind))
		return
	}

	if m.Kind != Code {
		m.Kind = kind
	}

	if unit, factor, ok := unitOf(help); ok {
		m.Unit, m.Factor = unit, factor
	}

	s.byField[field] = m
}
