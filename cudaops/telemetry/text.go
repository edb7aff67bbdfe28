package telemetry

import (
	"bytes"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Families parses a page in Prometheus' text format. On a syntax error, it returns the metrics before it together with
// the error. It converts panics of the parser to errors.
func Families(text []byte) (out map[string]*dto.MetricFamily, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, fmt.Errorf("the parser of Prometheus text gave up: %v", v)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	// The format has LF; some proxies send CRLF.
	return parser.TextToMetricFamilies(bytes.NewReader(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
}
