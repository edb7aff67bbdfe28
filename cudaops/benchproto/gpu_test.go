package benchproto

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/dl"
	"aicplan/cudaops/driver"
)

var (
	gpuRuns   = flag.Int("gpu-runs", 3, "runs of each protocol on the GPU")
	gpuSample = flag.String("gpu-sample", ByRank, "sample of shapes, or several with commas")
	gpuOnly   = flag.String("gpu-only", "", "protocols, with commas")
)

// TestGPUProtocols runs both protocols on the device that is there and holds the
// recovered point to its goals on the sample by rank.
func TestGPUProtocols(t *testing.T) {
	api, err := driver.Open()
	if dl.IsNotFound(err) {
		t.Skipf("no GPU: %v", err)
	}
	if err != nil {
		t.Skipf("no GPU: %v", err)
	}
	if n, err := api.Count(); err != nil || n == 0 {
		t.Skipf("no GPU: %d devices, %v", n, err)
	}
	info, err := api.Info(0)
	if err != nil {
		t.Fatal(err)
	}
	system := ""
	if strings.Contains(info.Name, "H200") {
		system = "h200_sxm"
	}
	var only []string
	if *gpuOnly != "" {
		only = strings.Split(*gpuOnly, ",")
	}
	for _, sample := range strings.Split(*gpuSample, ",") {
		shapes, err := Sample(sample)
		if err != nil {
			t.Fatal(err)
		}
		var visits strings.Builder
		trace := NewTraceWriter(&visits)
		rep, err := Measure(context.Background(), Options{
			Trace:  trace.Add,
			System: system, Shapes: shapes, Runs: *gpuRuns, Seed: uint64(os.Getpid()), Only: only,
			Progress: func(r Run) {
				t.Logf("%s %s: %.2f s, busy %.2f s, waited %.2f s, %d visits, %d looks, %d discarded, errors %q", sample, r.Protocol, r.Seconds, r.Busy, r.Waited, r.Visits, r.Looks, r.Discarded, r.Errors)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := rep.Text(&text); err != nil {
			t.Fatal(err)
		}
		t.Logf("sample %s\n%s", sample, text.String())
		if dir := os.Getenv("AICPLAN_GPU_OUT"); dir != "" {
			raw, err := json.Marshal(rep)
			if err == nil {
				err = trace.Flush()
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("visits-%s-%d.csv", sample, os.Getpid())), []byte(visits.String()), 0o644)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("protocols-%s-%d.json", sample, os.Getpid())), raw, 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		}
		misses := rep.Misses(DefaultGoals())
		for _, m := range misses {
			if sample == ByRank && system != "" && *gpuRuns > 1 {
				t.Errorf("%s: missed: %s", sample, m)
			} else {
				t.Logf("%s: missed: %s", sample, m)
			}
		}
	}
}
