package telemetry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// GPU identifies a device or a MIG slice of a device.
type GPU struct {
	Index     Index  `json:"gpu_index"`
	UUID      string `json:"gpu_uuid"`
	Name      string `json:"gpu_model_name,omitempty"`
	PCI       string `json:"pci_bus_id,omitempty"`
	Device    string `json:"device,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod_name,omitempty"`

	// Only for MIG slices.
	InstanceID      string `json:"gpu_instance_id,omitempty"`
	InstanceProfile string `json:"gpu_instance_profile,omitempty"`
}

// Index is a device's index as written by its source. It is encoded as a JSON number if it is one.
type Index string

// MarshalJSON implements json.Marshaler.
func (i Index) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(i)); err == nil {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return json.Marshal(string(i))
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Index) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '"' {
		*i = Index(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(i))
}

// key identifies a device across sources. Devices without a UUID are identified by their source, host name
// and index.
func (g GPU) key(source string) string {
	id := strings.ToLower(g.UUID)
	if id == "" {
		id = source + "#" + g.Hostname + "#" + string(g.Index)
	}
	return id + "/" + g.InstanceID
}

// Reading contains the values of one device in one scrape, by metric name in the metric's unit.
type Reading struct {
	GPU    GPU
	Values map[string]float64
}

// Page is the result of one scrape.
type Page struct {
	Readings []Reading
	Blanks   int // number of missing values: DCGM's sentinels, NaN, infinity
	// Malformed is why a part of the page could not be parsed, or "".
	Malformed string
}

// parse parses Prometheus text up to the first syntax error. It skips samples without a gpu label (CPUs,
// switches) and fields that are not in the set.
func (s Set) parse(text []byte) Page {
	var p Page
	found, err := Families(text)
	if err != nil {
		p.Malformed = err.Error()
	}

	index := map[GPU]int{}
	for _, m := range s {
		f := cmp.Or(found[m.Field], found[m.Field+"_total"])
		if f == nil {
			continue
		}

		// The page may have a different notation of the same unit.
		if unit, factor, ok := unitOf(m.Field, f.GetHelp()); ok && unit == m.Unit {
			m.Factor = factor
		}

		for _, sample := range f.GetMetric() {
			g, ok := device(sample.GetLabel())
			if !ok {
				continue
			}

			v, ok := value(sample)
			if !ok || blank(v) {
				p.Blanks++
				continue
			}

			i, ok := index[g]
			if !ok {
				i = len(p.Readings)
				index[g] = i
				p.Readings = append(p.Readings, Reading{GPU: g, Values: map[string]float64{}})
			}

			p.Readings[i].Values[m.Name] = v * m.Factor
		}
	}

	return p
}

func device(labels []*dto.LabelPair) (GPU, bool) {
	var g GPU
	found := false

	for _, l := range labels {
		v := l.GetValue()
		switch l.GetName() {
		case "gpu":
			g.Index, found = Index(v), v != ""

		case "UUID", "uuid":
			g.UUID = v

		case "modelName":
			g.Name = v

		case "pci_bus_id":
			g.PCI = v

		case "device":
			g.Device = v

		case "hostname", "Hostname":
			g.Hostname = v

		case "namespace", "exported_namespace":
			g.Namespace = v

		case "pod", "exported_pod":
			g.Pod = v

		case "GPU_I_ID":
			g.InstanceID = v

		case "GPU_I_PROFILE":
			g.InstanceProfile = v
		}
	}

	return g, found
}

func value(m *dto.Metric) (float64, bool) {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	}
	return 0, false
}

// blank reports whether v is one of DCGM's sentinels for missing values (blank, not found, not supported,
// not permissioned) of any type, or not a finite number.
func blank(v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return true
	}

	switch {
	case v >= 0x7ffffff0 && v <= 0x7ffffff3: // int32
		return v == math.Trunc(v)
	case v >= 1<<47 && v <= 1<<47+3: // double
		return v == math.Trunc(v)
	}
	return v >= 0x7ffffffffffffff0 // int64; a float64 cannot represent its last digits
}

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
