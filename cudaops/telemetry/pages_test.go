package telemetry

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"node1:9400": "http://node1:9400/metrics", "http://h:1/": "http://h:1/metrics",
		"https://H/v1":      "https://h/v1/metrics",
		"http://h/metrics/": "http://h/metrics", " localhost:9401 ": "http://localhost:9401/metrics",
		"[::1]:9400": "http://[::1]:9400/metrics",
	} {
		if got, err := Normalize(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "ftp://h/", "http://", "http://[::1", "default:// x"} {
		if got, err := Normalize(in); err == nil {
			t.Errorf("%q is %q", in, got)
		}
	}
	got, err := Endpoints(DefaultEndpoints, []string{"localhost:9401/metrics/", "a:1", "http://a:1/metrics"})
	if err != nil || len(got) != 3 || got[2] != "http://a:1/metrics" {
		t.Errorf("%v %v", got, err)
	}
}

func TestPageOfExporter(t *testing.T) {
	t.Parallel()
	f, err := os.ReadFile("testdata/rtx6000.prom")
	if err != nil {
		t.Fatal(err)
	}
	p := Builtin().parse(f)
	if len(p.Readings) != 1 || p.Malformed != "" || p.Blanks != 0 {
		t.Fatalf("%+v", p)
	}
	r := p.Readings[0]
	if r.GPU != (GPU{Index: "0", UUID: "GPU-ef6ef310-f8e2-cef9-036e-8f12d59b5ffc", Name: "NVIDIA RTX 6000 Ada Generation",
		PCI: "00000000:02:00.0", Device: "nvidia0", Hostname: "ed7e7a5e585f"}) {
		t.Errorf("%+v", r.GPU)
	}
	for name, want := range map[string]float64{Power: 22.582, Energy: 955287.014, Utilization: 1,
		MemoryUsed: 46614 * 1.048576e-3,
		SMClock:    210, "nvidia_memory_utilization": 15, "nvidia_power_violation": 12000,
		"nvidia_power_management_limit": 300} {
		if got := r.Values[name]; !(math.Abs(got-want) <= 1e-9*max(1, want)) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestPageQuirks(t *testing.T) {
	t.Parallel()
	p := Builtin().parse([]byte(`# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",hostname="n1"} 2147483632
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",hostname="n1"} 9223372036854775794
DCGM_FI_DEV_POWER_USAGE{gpu="2",UUID="GPU-c",hostname="n1"} 140737488355328
DCGM_FI_DEV_POWER_USAGE{gpu="3",UUID="GPU-d",hostname="n1"} NaN
DCGM_FI_DEV_POWER_USAGE{gpu="4",UUID="GPU-e",hostname="n1"} 350.5
DCGM_FI_DEV_POWER_USAGE{cpu="0"} 90
# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned (in %).
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="4",UUID="GPU-e",hostname="n1",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"} 0.25
DCGM_FI_PROF_SM_ACTIVE{gpu="4",UUID="GPU-e",hostname="n1",GPU_I_ID="8",GPU_I_PROFILE="1g.10gb"} 0.5
# HELP DCGM_FI_DEV_POWER_VIOLATION Throttling (in ns).
# TYPE DCGM_FI_DEV_POWER_VIOLATION counter
DCGM_FI_DEV_POWER_VIOLATION{gpu="4",UUID="GPU-e",hostname="n1"} 11000000
`))
	if p.Blanks != 4 || len(p.Readings) != 3 {
		t.Fatalf("%d blanks, %d devices: %+v", p.Blanks, len(p.Readings), p)
	}
	slices7 := p.Readings[1]
	if p.Readings[0].Values[Power] != 350.5 || p.Readings[0].Values["nvidia_power_violation"] != 11000 ||
		slices7.GPU.InstanceID != "7" || slices7.GPU.InstanceProfile != "1g.10gb" ||
		slices7.Values["nvidia_sm_utilization"] != 25 {
		t.Errorf("%+v", p.Readings)
	}
}

func TestCounterFile(t *testing.T) {
	t.Parallel()
	s := Builtin()
	err := s.AddCSV(strings.NewReader(`# Format
# DCGM FIELD, Prometheus metric type, help message

DCGM_FI_DEV_MEMORY_TEMP, gauge, Memory temperature (in °C)
DCGM_FI_DEV_THERMAL_VIOLATION, counter, Throttling, by heat (in ns)
DCGM_FI_DEV_SYNC_BOOST_VIOLATION, counter, Sync boost (in us).
DCGM_FI_DEV_FB_RESERVED, gauge, Reserved (in MiB).
DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles.
DCGM_FI_PROF_SM_OCCUPANCY, gauge, The ratio of number of warps resident on an SM (in %).
DCGM_FI_DEV_MADE_UP, gauge, Energy (in mJ)
DCGM_FI_DEV_BIG, gauge, Energy (in MJ)
DCGM_FI_DRIVER_VERSION, label, Driver
`), "c.csv")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]Metric{
		"DCGM_FI_DEV_THERMAL_VIOLATION":    {Name: "nvidia_thermal_violation", Unit: "us", Factor: 1e-3, Kind: Counter},
		"DCGM_FI_DEV_SYNC_BOOST_VIOLATION": {Name: "nvidia_sync_boost_violation", Unit: "us", Factor: 1, Kind: Counter},
		"DCGM_FI_DEV_FB_RESERVED":          {Name: "nvidia_fb_reserved", Unit: "GB", Factor: 1.048576e-3, Kind: Gauge},
		"DCGM_FI_PROF_DRAM_ACTIVE":         {Name: "nvidia_dram_active", Unit: "%", Factor: 100, Kind: Gauge},
		"DCGM_FI_PROF_SM_OCCUPANCY":        {Name: "nvidia_sm_occupancy", Unit: "%", Factor: 100, Kind: Gauge},
		"DCGM_FI_DEV_MADE_UP":              {Name: "nvidia_made_up", Unit: "J", Factor: 1e-3, Kind: Gauge},
		"DCGM_FI_DEV_BIG":                  {Name: "nvidia_big", Unit: "J", Factor: 1e6, Kind: Gauge},
		"DCGM_FI_DEV_MEMORY_TEMP":          {Name: "nvidia_memory_temperature", Unit: "C", Factor: 1, Kind: Gauge},
	} {
		var m Metric
		for _, of := range s {
			if of.Field == field {
				m = of
			}
		}
		if m.Name != want.Name || m.Unit != want.Unit || m.Factor != want.Factor || m.Kind != want.Kind {
			t.Errorf("%s: %+v", field, m)
		}
	}
	for text, want := range map[string]string{"DCGM_FI_DEV_X, gauge": "c.csv:1:",
		"\nX, gauge, y": "c.csv:2: \"X\" is no DCGM field", "DCGM_FI_DEV_X, meter, y": "\"meter\""} {
		s := Builtin()
		if err := s.AddCSV(strings.NewReader(text), "c.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExporterFaults(t *testing.T) {
	t.Parallel()
	good := `DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 100` + "\n"
	for name, c := range map[string]struct {
		serve   http.HandlerFunc
		want    string
		useless bool
	}{
		"503": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, "HTTP 503", false},
		"JSON": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		}, "application/json", true},
		"no gpu label": {func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprint(w, "node_cpu_seconds_total{cpu=\"0\"} 1\n")
		}, "gpu label", true},
		"not text": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "\x00\x01hello") }, "not Prometheus text",
			false},
		"truncated": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, good)
		}, "cut", false},
		"reset": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, "EOF", false},
	} {
		srv := httptest.NewUnstartedServer(c.serve)
		srv.Config.ErrorLog = nil
		srv.Start()
		src, err := NewExporter(srv.URL+"/metrics", Builtin())
		if err != nil {
			t.Fatal(err)
		}
		_, err = src.Scrape(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUseless) != c.useless {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
	src, _ := NewExporter("http://user:secret@localhost:1/metrics", Builtin())
	if _, err := src.Scrape(t.Context()); err == nil || strings.Contains(err.Error()+src.Name(), "secret") {
		t.Errorf("%s: %v", src.Name(), err)
	}
}

func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/rtx6000.prom")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add("# TYPE a counter\na_total{x=\"\\\"}\"} 1 2 # {} 3\n# EOF\n")
	f.Add("{}0") // the parser panicked
	f.Add("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 1\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0\" 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Builtin().parse([]byte(text)).Readings {
			for name, v := range r.Values {
				if math.IsNaN(v) || math.IsInf(v, 0) || r.GPU.Index == "" {
					t.Fatalf("%s of %+v is %v", name, r.GPU, v)
				}
			}
		}
	})
}

// TestCutPagesAreOneError checks that the number of reported errors does not grow with the number of
// places at which a page was cut.
func TestCutPagesAreOneError(t *testing.T) {
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"u\"} 300\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0"[:40+
			n.Add(1)%40])
	}))
	defer srv.Close()
	src, err := NewExporter(srv.URL, Builtin())
	if err != nil {
		t.Fatal(err)
	}
	r := Start(t.Context(), Options{Interval: MinInterval}, nil, []Source{src})
	defer r.Stop()
	for range 5 {
		_ = r.scrape(t.Context(), 0, r.states[0])
	}
	errs := r.Sources()[0].Errors
	for text := range errs {
		if !strings.HasPrefix(text, "the page was cut: after ") {
			t.Errorf("%v", errs)
		}
	}
	if len(errs) != 1 {
		t.Errorf("%v", errs)
	}
}
