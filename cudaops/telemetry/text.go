package telemetry

import (
	"bytes"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// families parses a page. The metrics before the first mistake are returned with the
// error. The parser panics on a sample without a name; that is an error here too.
func families(text []byte) (out map[string]*dto.MetricFamily, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, fmt.Errorf("the parser of Prometheus text gave up: %v", v)
		}
	}()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}
