package telemetry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// Record is one sample of one device in the format of AIPerf's gpu_telemetry_export.jsonl, plus the ids of
// MIG slices.
type Record struct {
	TimestampNs int64  `json:"timestamp_ns"`
	Source      string `json:"telemetry_source_url"`
	GPU
	Platform string             `json:"platform"`
	Data     map[string]float64 `json:"telemetry_data"`
}

// exportFactor returns the unit of a metric in AIPerf's files, which use MJ for energy, and the factor to
// convert to it.
func exportFactor(m Metric) (unit string, factor float64) {
	if m.Unit == "J" {
		return "MJ", 1e-6
	}
	return m.Unit, 1
}

// Sample is one scrape of one device. Values are in the units of the metrics. Missing values are omitted.
type Sample struct {
	At     int64 // nanoseconds since the Unix epoch
	Source string
	GPU    GPU
	Values map[string]float64 // by name of the metric
}

// Samples returns the samples inside a window in order of time. It only includes devices and sources of the
// window.
func (r *Recorder) Samples(w *Window) []Sample {
	lo, hi := w.From.UnixNano(), w.To.UnixNano()
	var all []Sample
	r.mu.Lock()

	for _, by := range r.series {
		i, s := best(by, lo, hi)
		if s == nil || !slices.ContainsFunc(w.GPUs, func(g *GPUWindow) bool { return g.GPU == s.gpu }) {
			continue
		}

		a, b := s.inside(lo, hi)
		for at := a; at < b; at++ {
			one := Sample{At: s.times[at], Source: r.states[i].src.Name(), GPU: s.gpu, Values: map[string]float64{}}
			for _, m := range r.set {
				if col := s.columns[m.Name]; col != nil && !math.IsNaN(col[at]) {
					one.Values[m.Name] = col[at]
				}
			}
			all = append(all, one)
		}
	}

	r.mu.Unlock()
	slices.SortFunc(all, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.GPU.UUID, b.GPU.UUID),
			cmp.Compare(a.GPU.InstanceID, b.GPU.InstanceID))
	})

	return all
}

// Metrics returns the recorded metrics in the order of files.
func (r *Recorder) Metrics() []Metric { return r.set }

// Records encodes samples in AIPerf's format, one JSON object per line.
func (r *Recorder) Records(samples []Sample) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	factors := map[string]float64{}

	for _, m := range r.set {
		_, factors[m.Name] = exportFactor(m)
	}

	for _, s := range samples {
		rec := Record{TimestampNs: s.At, Source: s.Source, GPU: s.GPU, Platform: "nvidia",
			Data: make(map[string]float64, len(s.Values))}
		for name, v := range s.Values {
			rec.Data[name] = v * factors[name]
		}
		if err := enc.Encode(rec); err != nil {
			return nil, err
		}
	}

	return out.Bytes(), nil
}

// Summary is the value of the key telemetry_data in AIPerf's profile_export_aiperf.json.
type Summary struct {
	Summary struct {
		Configured []string `json:"endpoints_configured"`
		Successful []string `json:"endpoints_successful"`
		Start      string   `json:"start_time"`
		End        string   `json:"end_time"`
	} `json:"summary"`
	Endpoints map[string]*EndpointSummary `json:"endpoints"`
	Errors    []ErrorCount                `json:"error_summary"`
	// Power in W and Energy in J are the sums over the case's GPUs, or null if they are unknown.
	Power  any `json:"total_power_w"`
	Energy any `json:"total_energy_j"`
	Lost   int `json:"lost_scrapes"`
	Blanks int `json:"blank_values"`
	// Incomplete are the reasons why statistics of devices are unknown.
	Incomplete []string `json:"incomplete"`
}

// EndpointSummary is the summary of one source.
type EndpointSummary struct {
	GPUs map[string]*GPUSummary `json:"gpus"`
}

// GPUSummary is the summary of one device.
type GPUSummary struct {
	Index           Index                     `json:"gpu_index"`
	Name            string                    `json:"gpu_name"`
	UUID            string                    `json:"gpu_uuid"`
	Platform        string                    `json:"platform"`
	Hostname        string                    `json:"hostname"`
	Namespace       string                    `json:"namespace,omitempty"`
	Pod             string                    `json:"pod_name,omitempty"`
	InstanceID      string                    `json:"gpu_instance_id,omitempty"`
	InstanceProfile string                    `json:"gpu_instance_profile,omitempty"`
	Stale           bool                      `json:"stale"`
	RefreshMs       *float64                  `json:"refresh_ms"`
	Metrics         map[string]map[string]any `json:"metrics"`
}

// ErrorCount is an error of a source and its number of occurrences.
type ErrorCount struct {
	Error string `json:"error"`
	Count int    `json:"count"`
}

// localTime is AIPerf's time format: local time without a zone.
const localTime = "2006-01-02T15:04:05.000000"

// Summary returns the window in AIPerf's format.
func (w *Window) Summary() *Summary {
	out := &Summary{Endpoints: map[string]*EndpointSummary{}, Errors: []ErrorCount{}, Lost: w.Lost, Blanks: w.Blanks,
		Incomplete: append([]string{}, w.Incomplete...)}
	s := &out.Summary
	s.Configured, s.Successful = []string{}, []string{}
	s.Start, s.End = w.From.Local().Format(localTime), w.To.Local().Format(localTime)

	for _, src := range w.Sources {
		s.Configured = append(s.Configured, src.Name)
		if src.OK {
			s.Successful = append(s.Successful, src.Name)
		}
		for reason, n := range src.Errors {
			out.Errors = append(out.Errors, ErrorCount{src.Name + ": " + reason, n})
		}
	}

	slices.SortFunc(out.Errors, func(a, b ErrorCount) int { return strings.Compare(a.Error, b.Error) })
	for _, g := range w.GPUs {
		ep := out.Endpoints[endpointKey(g.Source)]
		if ep == nil {
			ep = &EndpointSummary{GPUs: map[string]*GPUSummary{}}
			out.Endpoints[endpointKey(g.Source)] = ep
		}
		key := "gpu_" + string(g.GPU.Index)
		if g.GPU.InstanceID != "" {
			key += "_mig_" + g.GPU.InstanceID
		}
		if ep.GPUs[key] != nil { // one endpoint may report several hosts
			key += "_" + g.GPU.Hostname
		}
		ep.GPUs[key] = g.summary()
	}

	return out
}

func (g *GPUWindow) summary() *GPUSummary {
	out := &GPUSummary{Index: g.GPU.Index, Name: g.GPU.Name, UUID: g.GPU.UUID, Platform: "nvidia",
		Hostname: g.GPU.Hostname, Namespace: g.GPU.Namespace, Pod: g.GPU.Pod,
		InstanceID: g.GPU.InstanceID, InstanceProfile: g.GPU.InstanceProfile, Stale: g.Stale,
		Metrics: map[string]map[string]any{}}

	if g.Refresh > 0 {
		ms := float64(g.Refresh) / float64(time.Millisecond)
		out.RefreshMs = &ms
	}

	for i := range g.Metrics {
		st := &g.Metrics[i]
		unit, factor := exportFactor(st.Metric)
		m := map[string]any{"unit": unit, "count": st.Count, "display_name": st.Metric.Label}
		set := func(name string, v *float64) {
			if v != nil {
				m[name] = *v * factor
			}
		}

		switch st.Metric.Kind {
		case Counter:
			set("avg", st.Delta)

		case Code:
			// AIPerf has the difference of two codes here, which means nothing.
			m["avg"], m["codes"] = len(st.Codes), append([]int64{}, st.Codes...)

		default:
			set("time_weighted_avg", st.TimeAvg)
			for name, v := range st.Values {
				m[name] = v * factor
			}
		}

		out.Metrics[st.Metric.Name] = m
	}

	return out
}

// endpointKey returns the host and port of a source's URL.
func endpointKey(source string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(source, scheme); ok {
			host, _, _ := strings.Cut(rest, "/")
			return host
		}
	}
	return source
}
