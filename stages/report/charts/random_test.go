package charts

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"pgregory.net/rapid"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
	"aicplan/systems"
)

// TestAnyTable: whatever stands in a table, down to a single row of zeros, it
// is drawn without a panic and without a coordinate that is no number.
func TestAnyTable(t *testing.T) {
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}

	odd := rapid.SampledFrom([]float64{0, -1, 1e-12, 0.5, 1, 1, 7, 1e15, math.NaN(), math.Inf(1)})
	whole := rapid.SampledFrom([]int64{0, 1, 2, 64, 4096, -5, 1 << 40})
	word := rapid.SampledFrom([]string{"", "fp8", "bfloat16", "<b>", `"`, "2026-01-02T03:04:05Z",
		"2026-03-02T03:04:05.5Z"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 30).Draw(t, "rows")
		column := func(name string, g *rapid.Generator[float64]) arrow.Array {
			return table.Floats(rapid.SliceOfN(g, n, n).Draw(t, name), nil)
		}

		some := rapid.SampledFrom([]func(int) bool{nil, nil, func(i int) bool { return i%3 > 0 },
			func(int) bool { return false }})
		integers := func(name string) arrow.Array {
			var valid []bool
			if has := some.Draw(t, name+" has"); has != nil {
				valid = make([]bool, n)
				for i := range valid {
					valid[i] = has(i)
				}
			}

			return table.Ints(rapid.SliceOfN(whole, n, n).Draw(t, name), valid)
		}

		texts := func(name string) arrow.Array {
			return table.Texts(rapid.SliceOfN(word, n, n).Draw(t, name), nil)
		}

		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}

		rec := table.NewRecord([]string{"case_id", "gemm_dtype", "m", "n", "k", "latency", "rel_stdev",
			"sm_clock_mhz", "worker", "started_at"}, []arrow.Array{
			table.Texts(ids, nil), texts("gemm_dtype"), integers("m"), integers("n"), integers("k"),
			column("latency", odd), column("rel_stdev", odd), column("sm_clock_mhz", odd), texts("worker"), texts("started_at"),
		})

		ds := &stage.Dataset{Table: rec, Planned: rec,
			Info: stage.Info{Op: "gemm", System: "h", Params: []string{"gemm_dtype", "m", "n", "k"}}}
		in := model.TableInput{Address: "gate.g", Data: ds}
		if rapid.Bool().Draw(t, "reference") {
			in.Reference = ds
		}

		r, err := model.Build(model.Input{Tables: []model.TableInput{in},
			System: func(string) *systems.Spec { return spec }})
		if err != nil {
			t.Fatal(err)
		}

		for _, g := range Draw(r) {
			for _, c := range g.Charts {
				if strings.Contains(c.Body, "NaN") || strings.Contains(c.Body, "Inf") {
					t.Fatalf("%s has a coordinate that is no number", c.ID)
				}

				if _, err := json.Marshal(c.Data); err != nil {
					t.Fatalf("%s: %v", c.ID, err)
				}

				for _, k := range c.Legend {
					if strings.Contains(k.Name, "NaN") || strings.Contains(k.Name, "Inf") {
						t.Fatalf("%s has %q in its legend", c.ID, k.Name)
					}
				}
			}
		}
	})
}
