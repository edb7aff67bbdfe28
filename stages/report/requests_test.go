package report

import (
	"fmt"
	"strings"
	"testing"

	"aicplan/stages/report/model"
)

// TestReadRequests reads the profiled requests in order of their start. Warm-up and failed requests are left out.
func TestReadRequests(t *testing.T) {
	t.Parallel()
	const lines = `{"metadata":{"request_start_ns":1000000000,"request_end_ns":1,"benchmark_phase":"warmup"},"metrics":{"request_latency":{"value":5}}}
{"metadata":{"request_start_ns":3000000000,"benchmark_phase":"profiling"},"metrics":{"request_latency":{"value":40},"time_to_first_token":{"value":10}}}
{"metadata":{"request_start_ns":2000000000,"benchmark_phase":"profiling"},"metrics":{"request_latency":{"value":20}}}
{"metadata":{"request_start_ns":2500000000,"benchmark_phase":"profiling"},"error":{"message":"cut"}}
`
	var r model.Requests
	if err := readRequests([]byte(lines), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Start) != 2 || r.Start[0] != 0 || r.Start[1] != 1 || r.First[0] == r.First[0] || r.First[1] != 1.01 ||
		r.End[1] != 1.04 {
		t.Errorf("%+v", r)
	}
	if err := readRequests([]byte(lines+"{\n"), &r); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("line %d", 1+strings.Count(lines, "\n"))) {
		t.Errorf("an invalid file gave %v", err)
	}
}

// TestRequestsOfWrongTypes checks that records whose times are no numbers are errors. They would be missing in the
// chart.
func TestRequestsOfWrongTypes(t *testing.T) {
	t.Parallel()
	good := `{"metadata":{"request_start_ns":5,"benchmark_phase":"profiling"},"metrics":{"request_latency":{"value":2},` +
		`"time_to_first_token":{"value":null}}}`
	for _, bad := range []string{
		`[]`,
		strings.Replace(good, "5", `"5"`, 1),
		strings.Replace(good, "2", `"2"`, 1),
		strings.Replace(good, "null", "true", 1),
	} {
		err := readRequests([]byte(good+"\n"+bad+"\n"), &model.Requests{})
		if err == nil || !strings.HasPrefix(err.Error(), "line 2") {
			t.Errorf("%s: error %v", bad, err)
		}
	}

	r := &model.Requests{}
	if err := readRequests([]byte(good+"\n"+good), r); err != nil || len(r.Start) != 2 {
		t.Errorf("%+v, error %v", r, err)
	}
}
