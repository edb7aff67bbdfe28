package telemetry

import (
	"bytes"
	"errors"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// tidy takes away what the parser of Prometheus text refuses and nothing here
// needs: the second heading of a metric, which pages that were put together have,
// and timestamps, exemplars and the end mark of OpenMetrics, which some exporters
// send unasked. Every line keeps its number.
func tidy(page []byte) []byte {
	out := make([]byte, 0, len(page))
	seen := map[string]bool{}
	for len(page) > 0 {
		line, rest, _ := bytes.Cut(page, []byte("\n"))
		page = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case bytes.HasPrefix(line, []byte("# EOF")):
			page = nil
		case bytes.HasPrefix(line, []byte("#")):
			fields := bytes.Fields(line)
			if len(fields) > 2 && (string(fields[1]) == "HELP" || string(fields[1]) == "TYPE") {
				name := string(fields[1]) + " " + string(fields[2])
				if !seen[name] && !(string(fields[1]) == "TYPE" && openMetricsType(fields)) {
					out = append(out, line...)
				}
				seen[name] = true
			}
		case bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")):
			// A sample whose name is inside the braces is of no exporter of GPUs.
		default:
			line = sample(line)
			// OpenMetrics heads a counter without the ending that its samples have.
			name := line[:max(0, bytes.IndexAny(line, "{ \t"))]
			if base, ok := bytes.CutSuffix(name, []byte("_total")); ok && seen["TYPE "+string(base)] && !seen["TYPE "+string(name)] {
				out = append(out, base...)
				line = line[len(name):]
			}
			out = append(out, line...)
		}
		out = append(out, '\n')
	}
	return out
}

// openMetricsType says that a type is one of OpenMetrics alone.
func openMetricsType(fields [][]byte) bool {
	switch string(fields[len(fields)-1]) {
	case "unknown", "info", "stateset", "gaugehistogram":
		return true
	}
	return false
}

// sample is a line with a value and nothing behind it.
func sample(line []byte) []byte {
	end := 0 // of the name and its labels
	if open := bytes.IndexAny(line, "{ \t"); open >= 0 && line[open] == '{' {
		quoted := false
		for i := open + 1; i < len(line) && end == 0; i++ {
			switch c := line[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case c == '}' && !quoted:
				end = i + 1
			}
		}
	} else if open > 0 {
		end = open
	}
	if end == 0 {
		return line // the parser says what is wrong with it
	}
	fields := bytes.Fields(line[end:])
	if len(fields) < 2 {
		return line
	}
	return append(append(bytes.Clone(line[:end]), ' '), fields[0]...)
}

// families reads a page. The parser panics on some pages that no exporter means
// (a sample without a name); here that is one more mistake of the page.
func families(text []byte) (out map[string]*dto.MetricFamily, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, fmt.Errorf("the parser of Prometheus text gave up: %v", v)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// maxBadLines is how many lines of a page may be wrong.
const maxBadLines = 20

// without removes the line that an error of the parser names; false where it names
// none.
func without(page []byte, err error) ([]byte, bool) {
	var pe expfmt.ParseError
	if !errors.As(err, &pe) || pe.Line < 1 {
		return nil, false
	}
	from := 0
	for n := 1; n < pe.Line; n++ {
		i := bytes.IndexByte(page[from:], '\n')
		if i < 0 {
			return nil, false
		}
		from += i + 1
	}
	to := bytes.IndexByte(page[from:], '\n')
	if to <= 0 {
		return nil, false
	}
	return append(bytes.Clone(page[:from]), page[from+to:]...), true
}
