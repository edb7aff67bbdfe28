package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// layers is a table of op layer: one row for every text of parts.
func layers(latency []float64, parts ...string) *stage.Dataset {
	ms := make([]int64, len(parts))
	for i := range ms {
		ms[i] = 1 << i
	}
	return &stage.Dataset{
		Table: table.NewRecord([]string{"m", "parts", "latency"},
			[]arrow.Array{table.Ints(ms, nil), table.Texts(parts, nil), table.Floats(latency, nil)}),
		Info: stage.Info{Op: "layer", Params: []string{"m"}},
	}
}

func TestComposition(t *testing.T) {
	t.Parallel()
	gemm := measured(1, 2, 4)
	attention := &stage.Dataset{
		Table: table.NewRecord([]string{"isl", "latency"},
			[]arrow.Array{table.Ints([]int64{128, 256}, nil), table.Floats([]float64{10, 20}, nil)}),
		Info: stage.Info{Op: "attention_context", Params: []string{"isl"}},
	}

	part := func(m, n int) string {
		return fmt.Sprintf(`{"gemm_dtype":"bfloat16","m":%d,"n":4096,"k":4096,"count":%d}`, m, n)
	}

	whole := `[` + part(1, 2) + `,` + part(4, 1) + `,{"isl":256}]` // 2*1 + 4 + 20
	const check = `check "composition" { parts = [dedupe.gemm, import.old] }`
	good := layers([]float64{26.5}, whole)
	expect(t, only(t, run(t, good, check, gemm, attention)), "pass", "0.981 to 0.981",
		"m=1 sum=26 layer=26.5 sum/layer=0.981")
	expect(t, only(t, run(t, layers([]float64{26.5, 30}, whole, whole), check, gemm, attention)), "fail",
		"1 of 2 outside", "sum=26 (2 x 1 + 4 + 20) layer=30 sum/layer=0.867 outside", "sum=26 layer=26.5 sum/layer=0.981")
	expect(t, only(t, run(t, good, `check "composition" {
		parts = [dedupe.gemm, import.old]
		min   = 0.99
	}`, gemm, attention)), "fail", "1 of 1 outside")

	// What cannot be added up has not passed.
	for text, why := range map[string]string{
		`[` + part(64, 1) + `]`: "no row for the part gemm_dtype=bfloat16 k=4096 m=64 n=4096",
		`[{"n":4096}]`:          "3 rows for the part n=4096",
		`[]`:                    "parts is an empty list",
		`m=1`:                   "parts is no JSON list",
	} {
		expect(t, only(t, run(t, layers([]float64{1}, text), check, gemm, attention)), "fail", why)
	}

	expect(t, only(t, run(t, good, check, with(gemm, "latency", table.Floats([]float64{-1, 2, 4}, nil)),
		attention)), "fail", "no usable latency of the part")
	expect(t, only(t, run(t, good, `check "composition" {
		parts  = [dedupe.gemm]
		column = "energy"
	}`, gemm)), "fail", `no column "energy"`)
}

// TestCompositionAtTheClockOfTheLayer checks the finding about a layer outside the limits. It has the sum
// of the parts at the layer's clock if the rows have a clock slope, and else both clocks.
func TestCompositionAtTheClockOfTheLayer(t *testing.T) {
	t.Parallel()
	gemm := measured(1, 2)
	gemm.Table = table.NewRecord([]string{"m", "latency", "sm_clock_mhz", "clock_slope"}, []arrow.Array{
		table.Ints([]int64{1, 2}, nil), table.Floats([]float64{4, 6}, nil), table.Floats([]float64{1500, 1300}, nil),
		table.Floats([]float64{1, 0}, nil),
	})

	layer := layers([]float64{11}, `[{"m":1},{"m":2}]`)
	layer.Table = table.NewRecord([]string{"m", "parts", "latency", "sm_clock_mhz"}, []arrow.Array{
		layer.Table.Column(0), layer.Table.Column(1), layer.Table.Column(2), table.Floats([]float64{1200}, nil),
	})

	const check = `check "composition" { parts = [dedupe.gemm] }`
	expect(t, only(t, run(t, layer, check, gemm)), "fail", "1 of 1 outside",
		"m=1 sum=10 (4 + 6) layer=11 sum/layer=0.909 outside (1.000 at the layer's clock of 1200 MHz)")
	unknown := with(gemm, "clock_slope", table.Floats([]float64{1, 0}, []bool{true, false}))
	expect(t, only(t, run(t, layer, check, unknown)), "fail", "1 of 1 outside",
		"m=1 sum=10 (4 + 6) layer=11 sum/layer=0.909 outside (the parts at 1300 to 1500 MHz, the layer at 1200)")

	silent := with(unknown, "sm_clock_mhz", table.Floats([]float64{1500, 0}, []bool{true, false}))
	if rows := only(t, run(t, layer, check, silent)).Rows; len(rows) != 1 ||
		!strings.HasSuffix(rows[0], "sum/layer=0.909 outside") {
		t.Errorf("a part without a clock: %q", rows)
	}
}

// TestCompositionTakesRowsOfTheLayersPoint checks that parts are rows of the layer's operating point, or
// rows without one if the table has none of that point.
func TestCompositionTakesRowsOfTheLayersPoint(t *testing.T) {
	t.Parallel()
	gemm := func(points []string, valid []bool, latency ...float64) *stage.Dataset {
		ds := measured(1)
		ms := make([]int64, len(points))
		for i := range ms {
			ms[i] = 1
		}
		ds.Table = table.NewRecord([]string{"m", "latency", "operating_point"},
			[]arrow.Array{table.Ints(ms, nil), table.Floats(latency, nil), table.Texts(points, valid)})
		return ds
	}

	layer := layers([]float64{10}, `[{"m":1}]`)
	layer.Table = table.NewRecord([]string{"m", "parts", "latency", "operating_point"}, []arrow.Array{
		layer.Table.Column(0), layer.Table.Column(1), layer.Table.Column(2), table.Texts([]string{"sustained"}, nil),
	})

	const check = `check "composition" { parts = [dedupe.gemm] }`
	expect(t, only(t, run(t, layer, check, gemm([]string{"recovered", "sustained"}, nil, 8, 10))), "pass",
		"1.000 to 1.000")
	expect(t, only(t, run(t, layer, check, gemm([]string{"recovered", ""}, []bool{true, false}, 8, 10))), "pass",
		"1.000 to 1.000")
	expect(t, only(t, run(t, layer, check, gemm([]string{"recovered"}, nil, 10))), "fail",
		"the part m=1 was taken at the operating point recovered and the layer at sustained")
	expect(t, only(t, run(t, layer, check, gemm([]string{"sustained", "sustained"}, nil, 10, 10))), "fail",
		"2 rows for the part m=1")

	// A layer without a point takes any.
	expect(t, only(t, run(t, layers([]float64{10}, `[{"m":1}]`), check, gemm([]string{"recovered"}, nil, 10))),
		"pass", "1.000 to 1.000")
}
