package load

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/workload"
	"aicplan/cudaops/worker"
)

// TestOptionsMatchFields compares the declared options with the fields of Settings.
func TestOptionsMatchFields(t *testing.T) {
	t.Parallel()
	var fields, declared []string
	for f := range reflect.TypeFor[Settings]().Fields() {
		if f.IsExported() {
			fields = append(fields, f.Tag.Get("json"))
		}
	}
	for _, o := range options {
		declared = append(declared, o.Name)
		if o.Kind() == "" || o.Doc == "" || strings.HasSuffix(o.Doc, ".") {
			t.Errorf("option %s has the kind %q and the doc %q", o.Name, o.Kind(), o.Doc)
		}
	}
	slices.Sort(fields)
	slices.Sort(declared)
	if !slices.Equal(fields, declared) {
		t.Errorf("the fields are %v, the options %v", fields, declared)
	}
}

// TestLimitsOfOptions checks the errors for values outside of an option's limits.
func TestLimitsOfOptions(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Settings){
		"grace is -1; it must not be negative":                        func(s *Settings) { s.Grace = -1 },
		"cancel_share is 1.5; it is a share":                          func(s *Settings) { s.CancelShare = 1.5 },
		"request_timeout is 0; it must be above 0":                    func(s *Settings) { s.Timeout = 0 },
		`sampling is "random"; it must be one of sequential, shuffle`: func(s *Settings) { s.Sampling = "random" },
		"isl is 0.5; it must be from 1 to 10000000":                   func(s *Settings) { s.ISL = 0.5 },
		"vocabulary is 100; it must be from 512 to":                   func(s *Settings) { s.Vocabulary = 100 },
		"concurrency is 100001; it must be from 0 to 100000":          func(s *Settings) { s.Concurrency = 100_001 },
		"image_width is 9000; it must be from 1 to 8192":              func(s *Settings) { s.ImageWidth = 9000 },
		"arrival_smoothness is 0; it must be above 0":                 func(s *Settings) { s.Smoothness = 0 },
		`arrival_smoothness is the shape of gamma arrivals, and arrival is "poisson"`: func(s *Settings) {
			s.RequestRate, s.Smoothness = 1, 0.25
		},
		"users decide the time between turns; remove": func(s *Settings) {
			s.Users, s.RequestRate, s.RateRamp = 2, 1, 1
		},
		`arrival is "uniform"; it must be one of constant, poisson`: func(s *Settings) { s.Arrival = "uniform" },
		"concurrency is 8, and only 6 requests can be open": func(s *Settings) {
			s.Concurrency, s.Requests, s.Sessions = 8, 6, 7
		},
		"slice and server_metrics are 0 or seconds from 0.001":       func(s *Settings) { s.Slice = 1e-10 },
		"slice and server_metrics are 0 or seconds":                  func(s *Settings) { s.ServerMetrics = 1e-10 },
		"model is not set; it is the name by which the server knows": func(s *Settings) { s.Model = "" },
	} {
		s := quick()
		change(&s)
		if err := s.Settle(); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSuffix(want, " it")) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSettingsWithoutEffect checks that a setting is an error if the load does not use it.
func TestSettingsWithoutEffect(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]string{
		`{"arrival": "constant"}`:                                             "arrival is set and request_rate is not",
		`{"arrival": "constant", "request_rate": 2}`:                          "",
		`{"osl_stddev": 3}`:                                                   "osl_stddev is set and osl is not",
		`{"osl_stddev": 0}`:                                                   "",
		`{"osl_stddev": 3, "osl": 9}`:                                         "",
		`{"osl_stddev": 3, "osl": 9, "dataset": "a.txt"}`:                     "osl_stddev shapes generated prompts",
		`{"users": 2, "request_rate": 2, "arrival": "gamma", "isl": 9}`:       "users decide the time between turns",
		`{"users": 2, "request_rate": 2, "arrival": "constant", "isl": 9}`:    "",
		`{"request_rate": 2, "arrival": "constant", "arrival_smoothness": 2}`: "arrival_smoothness is the shape of gamma",
		`{"request_rate": 2, "arrival": "poisson", "request_rate_ramp": 1}`:   "",
		`{"request_rate": 2, "concurrency": 2, "concurrency_ramp": 1}`:        "",
		`{"request_rate": 2, "arrival": "gamma", "arrival_smoothness": 0.25}`: "",
	} {
		h := NewHost(worker.Init{Options: map[string]any{"url": "h", "model": "m"},
			Blocks: json.RawMessage(`{"load": ` + load + `}`)})
		err := h.Check(worker.Case{Op: "chat", Params: []byte(`{}`)})
		if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", load, err, want)
		}
	}
}

func TestRowLeavesOutUnknownUsage(t *testing.T) {
	t.Parallel()
	res := &Traffic{Profiling: &Phase{Phase: aiperf.Phase{Summary: &aiperf.Summary{}}}, Conversations: workload.Fixed(nil)}
	for _, name := range []string{"client_cpu_share", "client_rss_mb"} {
		if v, ok := row(res, false)[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	res.Client = Client{CPUShare: 0.5, PeakRSS: 20}
	if r := row(res, false); r["client_cpu_share"] != 0.5 || r["client_rss_mb"] != 20.0 {
		t.Errorf("%v", r)
	}
}
