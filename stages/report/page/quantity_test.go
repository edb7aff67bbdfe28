package page

import (
	"strings"
	"testing"

	"aicplan/stages/report/model"
)

func TestUnitsAreEscaped(t *testing.T) {
	t.Parallel()
	got := string(quantity(&model.Spread{P50: 1}, `"><script>`))
	if strings.Contains(got, "<script>") || !strings.Contains(got, "&lt;script&gt;") {
		t.Errorf("%s", got)
	}
}

// TestMetricHasItsName has a table of requests a second beside those of times.
func TestMetricHasItsName(t *testing.T) {
	page, r := sample(t, 50)
	if text := string(page); !strings.Contains(text, "latency, median") || !strings.Contains(text, "Latency ") {
		t.Error("tables of times have no heading for them")
	}

	r.Tables[0].Metric, r.Tables[0].Unit = "request_throughput", "requests/s"
	var b strings.Builder
	if err := WriteHTML(&b, r, 50); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"metric, median", "Request throughput ", "<small>request_throughput</small>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}

	if strings.Contains(b.String(), "latency, median") {
		t.Error("a median of requests a second is headed latency")
	}
}
