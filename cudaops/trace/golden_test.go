package trace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// golden are figures of the traces in testdata, computed by an independent program with decimal arithmetic.
type golden struct {
	Events, Kernels                                    int64
	SpanNs, CommSumNs, CommUnionNs, ComputeUnionNs     int64
	OverlapNs, ExposedCommNs, BusyUnionNs, Collectives int64
	Steps                                              int
	Kinds                                              map[string]int64
}

func goldens(t testing.TB) map[string]golden {
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]golden{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, want := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := Read(filepath.Join("testdata", name), Options{Top: 3})
			if err != nil || len(res) != 1 {
				t.Fatalf("%d results, %v", len(res), err)
			}
			r := res[0]
			if r.Events != want.Events || r.Kernels != want.Kernels || r.Warning != "" {
				t.Errorf("events %d, kernels %d, warning %q; want %d, %d, none", r.Events, r.Kernels, r.Warning, want.Events,
					want.Kernels)
			}
			if want.Kernels == 0 {
				if r.Error == "" || r.SpanNs != nil || r.CommSumNs != nil || r.ExposedCommNs != nil {
					t.Errorf("a trace without kernels has figures: %+v", r)
				}
				return
			}
			var n int64
			kinds := map[string]int64{}
			for _, c := range r.Collectives {
				n += c.Count
				kinds[c.Kind] = c.Count
			}
			got := golden{Events: r.Events, Kernels: r.Kernels, SpanNs: *r.SpanNs, CommSumNs: *r.CommSumNs,
				CommUnionNs: *r.CommUnionNs, ComputeUnionNs: *r.ComputeUnionNs, OverlapNs: *r.OverlapNs,
				ExposedCommNs: *r.ExposedCommNs, BusyUnionNs: *r.BusyNs, Collectives: n, Steps: r.Steps, Kinds: kinds}
			if len(kinds) == 0 {
				got.Kinds = nil
			}
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			if string(g) != string(w) {
				t.Errorf("got  %s\nwant %s", g, w)
			}
		})
	}
}
