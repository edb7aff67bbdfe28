package rules_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/systems"
)

// gemm returns the products of some widths in two formats, as an H200 with ideal kernels would take.
func gemm(t testing.TB, change func(row int, v float64) float64) *rules.Table {
	t.Helper()
	var ms, ns, ks []int64
	var words []string
	var latency []float64

	for _, dtype := range []string{"bfloat16", "fp8"} {
		peak, size := 989e12, 2.0
		if dtype == "fp8" {
			peak, size = 1979e12, 1.0
		}

		for _, n := range []int64{64, 1024, 4096, 16384, 65536} {
			for _, k := range []int64{64, 1024, 4096, 16384, 65536} {
				for m := int64(1); m <= 4096; m *= 4 {
					flops := 2 * float64(m) * float64(n) * float64(k)
					bytes := size*float64(m*k+n*k) + 2*float64(m*n)
					ms, ns, ks, words = append(ms, m), append(ns, n), append(ks, k), append(words, dtype)

					// The slope differs a little between formats, so that no two rows are equal.
					ms := 0.0025 + 1000*max(1.4*flops/peak, 1.15*bytes/4.8e12)*(1+1e-4*float64(len(latency)))
					latency = append(latency, change(len(latency), ms))
				}
			}
		}
	}

	n := len(latency)
	perf, _ := catalog.Lookup("gemm_perf")
	rec := table.NewRecord([]string{"framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n",
		"k", "latency"}, []arrow.Array{
		table.Constant("TRTLLM", n), table.Constant("1.0", n), table.Constant("NVIDIA H200", n), table.Constant("gemm", n),
		table.Constant("cublas", n), table.Texts(words, nil), table.Ints(ms, nil), table.Ints(ns, nil), table.Ints(ks, nil),
		table.Floats(latency, nil)})
	return prepare(t, rec, perf)
}

func prepare(t testing.TB, rec arrow.Record, perf *catalog.Table) *rules.Table {
	t.Helper()
	out, err := rules.New(rec, perf, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.System, err = systems.Load("h200_sxm"); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(_ int, v float64) float64 { return v }

func times(by float64) func(int, float64) float64 {
	return func(_ int, v float64) float64 { return v * by }
}

func TestLimits(t *testing.T) {
	half := len(gemm(t, same).Values) / 2 // the first half is bfloat16

	for name, c := range map[string]struct {
		change   func(row int, v float64) float64
		offences int    // -1: any number
		problem  string // of the table or a group; "" if there is none
	}{
		"sound":                   {same, 0, ""},
		"microseconds":            {times(1000), -1, "is latency in another unit"},
		"a sum of six executions": {times(6), 0, "95 % take more than 7.025 times as long"},
		"one format in us": {func(i int,
			v float64) float64 {
			return v * map[bool]float64{true: 1000, false: 1}[i >= half]
		}, -1, "rows of gemm_dtype=fp8 take more than"},
		"every third row in us": {func(i int, v float64) float64 {
			return v * map[bool]float64{true: 1000, false: 1}[i%3 == 0]
		}, -1, "is latency in another unit there?"},
		"seconds":               {times(1e-3), 2 * half, ""},
		"memory of another GPU": {times(1.43), 0, "are they of another GPU?"},
		"a launch in each row": {func(_ int, v float64) float64 { return v + 0.005 }, 0,
			"is a launch by the host in every row?"},
		"rounded to 0.01 ms": {func(_ int, v float64) float64 { return math.Ceil(v*100) / 100 }, 0,
			"rounded to multiples of 0.01"},
		"constant": {func(int, float64) float64 { return 80 }, -1, "values of latency are 80"},
		"one row of a femtosecond": {func(i int, v float64) float64 { return map[bool]float64{true: 1e-9, false: v}[i == 7] },
			1, ""},
		"one row of days": {func(i int, v float64) float64 { return map[bool]float64{true: 1e9, false: v}[i == 7] }, 1, ""},
		"a missing value": {func(i int, v float64) float64 { return map[bool]float64{true: math.NaN(), false: v}[i == 7] }, 1,
			""},
	} {
		res := gemm(t, c.change).Limits(0.05)
		if c.offences >= 0 && len(res.Offences) != c.offences {
			t.Errorf("%s: %d offences, want %d: %+v", name, len(res.Offences), c.offences,
				res.Offences[:min(3, len(res.Offences))])
		}

		if all := strings.Join(res.Problems, "; "); !strings.Contains(all, c.problem) || (c.problem == "") != (all == "") {
			t.Errorf("%s: %q, want %q", name, all, c.problem)
		}
	}
}

// TestLimitsOfCollectives checks that a message cannot move faster than the links of a GPU.
func TestLimitsOfCollectives(t *testing.T) {
	perf, _ := catalog.Lookup("nccl_perf")
	for times, want := range map[int64]int{1: 0, 2: 3} {
		ops := []string{"all_reduce", "all_gather", "reduce_scatter", "alltoall"}
		latency := []float64{4.2, 2.7, 2.8, 5} // of 512 MiB on 8 GPUs
		rec := table.NewRecord([]string{"op_name", "nccl_dtype", "num_gpus", "message_size", "latency"}, []arrow.Array{
			table.Texts(ops, nil), table.Constant("half", 4), table.Constant(int64(8), 4),
			table.Constant(times*512<<20, 4), table.Floats(latency, nil)})

		if res := prepare(t, rec, perf).Limits(0.05); len(res.Offences) != want {
			t.Errorf("%d times the message: %+v, want %d", times, res.Offences, want)
		}
	}
}

// TestLimitsSkipMissingValues checks that a row without a value does not hide that all others are too long.
func TestLimitsSkipMissingValues(t *testing.T) {
	values := slices.Repeat([]float64{50.123, 60.456}, 30)
	valid := slices.Repeat([]bool{true}, 60)
	valid[7] = false
	res := prepare(t, table.NewRecord([]string{"latency"}, []arrow.Array{table.Floats(values, valid)}), nil).Limits(0.05)
	if len(res.Problems) != 1 || res.Problems[0] != "the shortest of 59 rows takes 50.12 ms: is latency in another unit?" {
		t.Errorf("%q", res.Problems)
	}
}

// TestLimitsAllowOperandsInLargeCaches checks that operands which fit into the cache of a system need not pass through its
// memory, and that the rest of larger ones must.
func TestLimitsAllowOperandsInLargeCaches(t *testing.T) {
	perf, _ := catalog.Lookup("gemm_perf")
	sizes := []int64{4096, 16384} // 32 MiB in 39 us, and 512 MiB in 621 us
	rec := table.NewRecord([]string{"gemm_dtype", "m", "n", "k", "latency"}, []arrow.Array{
		table.Constant("bfloat16", 2), table.Constant(int64(1), 2), table.Ints(sizes, nil), table.Ints(sizes, nil),
		table.Floats([]float64{0.02, 0.3}, nil)})

	tab := prepare(t, rec, perf)
	var err error
	if tab.System, err = systems.Load("l40s"); err != nil {
		t.Fatal(err)
	}
	if got := tab.Limits(0.05).Offences; len(got) != 1 || got[0].Row != 1 {
		t.Errorf("%+v, want row 1 only", got)
	}
}

// TestLimitsFindUnitOfGroup checks that the rows of one word, or those without a word, may not all be in another unit,
// although nothing is known of the kernels.
func TestLimitsFindUnitOfGroup(t *testing.T) {
	perf, _ := catalog.Lookup("moe_a2a_perf")
	for _, x := range []struct {
		word  string // null if it is empty
		scale float64
		want  string
	}{
		{"combine", 1, ""},
		{"combine", 1000, "the shortest of the 40 rows of phase=combine takes 20 ms: are they in another unit?"},
		{"", 1, ""},
		{"", 1000, "the shortest of the 40 rows of phase= takes 20 ms: are they in another unit?"},
	} {
		tokens, latency := make([]int64, 80), make([]float64, 80) // in us
		for i := range tokens {
			tokens[i] = int64(i%40 + 1)
			if latency[i] = 20 + 1.234567*float64(i); i >= 40 {
				latency[i] = x.scale * (20 + 1.345678*float64(i-40))
			}
		}
		phases := slices.Concat(slices.Repeat([]string{"dispatch"}, 40), slices.Repeat([]string{x.word}, 40))
		known := slices.Concat(slices.Repeat([]bool{true}, 40), slices.Repeat([]bool{x.word != ""}, 40))
		rec := table.NewRecord([]string{"phase", "num_tokens", "latency"},
			[]arrow.Array{table.Texts(phases, known), table.Ints(tokens, nil), table.Floats(latency, nil)})

		if got := strings.Join(prepare(t, rec, perf).Limits(0.05).Problems, "; "); got != x.want {
			t.Errorf("%q times %g: %q, want %q", x.word, x.scale, got, x.want)
		}
	}
}

// TestLimitsFindShiftedSizes checks that a constant added to a column of sizes is found.
func TestLimitsFindShiftedSizes(t *testing.T) {
	for shift, want := range map[int64]int{-1: 1, 0: 0, 1: 1, 100: 0} {
		base := gemm(t, same)
		col, err := table.Int64s(base.Rec, "n")
		if err != nil {
			t.Fatal(err)
		}

		ns := slices.Clone(col.Values)
		for i := range ns {
			ns[i] += shift
		}
		rec := table.WithColumn(table.WithColumn(base.Rec, "m", table.Ints(ns, nil)), "n", table.Ints(ns, nil))
		if got := prepare(t, rec, base.Perf).Limits(0.05).Problems; len(got) != want {
			t.Errorf("%d added: %q", shift, got)
		}
	}
}

// TestLimitsFindThrottledProducts checks that a table whose large products all stay far below the peak is
// found.
func TestLimitsFindThrottledProducts(t *testing.T) {
	perf, _ := catalog.Lookup("gemm_perf")
	const n = 60
	for times, want := range map[float64]string{1.25: "", 1.55: "was the GPU throttled?"} {
		var ms []int64
		var latency []float64
		for i := range int64(n) {
			ms = append(ms, 4096+64*i)
			latency = append(latency, times*1000*2*float64(ms[i])*8192*8192/989e12)
		}

		rec := table.NewRecord([]string{"gemm_dtype", "m", "n", "k", "latency"}, []arrow.Array{
			table.Constant("bfloat16", n), table.Ints(ms, nil), table.Constant(int64(8192), n), table.Constant(int64(8192), n),
			table.Floats(latency, nil)})
		got := strings.Join(prepare(t, rec, perf).Limits(0.05).Problems, "; ")
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%g times the peak: %q", times, got)
		}
	}
}

// TestLimitsFindExchangedColumns checks that rows whose work is far below what their time allows are found
// although each one is possible.
func TestLimitsFindExchangedColumns(t *testing.T) {
	perf, _ := catalog.Lookup("context_attention_perf")
	for _, exchanged := range []bool{false, true} {
		var batch, isl []int64
		var latency []float64
		for b := int64(1); b <= 64; b *= 2 {
			for s := int64(1024); s <= 1<<17; s *= 2 {
				for range 2 {
					batch, isl = append(batch, b), append(isl, s)
					latency = append(latency, 1000*2*4*float64(b)*32*128*float64(s)*float64(s)/2/989e12+1e-4*float64(len(latency)))
				}
			}
		}
		if exchanged {
			batch, isl = isl, batch
		}

		n := len(isl)
		rec := table.NewRecord([]string{"attn_dtype", "kv_cache_dtype", "num_heads", "num_key_value_heads", "head_dim",
			"batch_size", "isl", "latency"}, []arrow.Array{table.Constant("bfloat16", n), table.Constant("bfloat16", n),
			table.Constant(int64(32), n), table.Constant(int64(8), n), table.Constant(int64(128), n), table.Ints(batch, nil),
			table.Ints(isl, nil), table.Floats(latency, nil)})

		got := strings.Join(prepare(t, rec, perf).Limits(0.05).Problems, "; ")
		if strings.Contains(got, "are two columns exchanged") != exchanged {
			t.Errorf("exchanged %v: %q", exchanged, got)
		}
	}
}

// TestLimitsJudgeAllMetrics checks that a value which is no measurement is found in every metric of a table.
func TestLimitsJudgeAllMetrics(t *testing.T) {
	perf, _ := catalog.Lookup("wideep_deepep_normal_perf")
	for v, want := range map[float64]string{20: "", 0: "", -1: "1 negative", math.Inf(1): "1 infinite"} {
		rec := table.NewRecord([]string{"num_token", "dispatch_transmit_us", "combine_notify_us"}, []arrow.Array{
			table.Constant(int64(1), 1), table.Constant(20.0, 1), table.Constant(v, 1)})
		got := strings.Join(prepare(t, rec, perf).Limits(0.05).Problems, "; ")
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%g: %q", v, got)
		}
	}
}

// TestLimitsFindSizesThatNoModelHas checks that sizes of heads and experts which no model has are found, with the first
// row, and that those of models are not.
func TestLimitsFindSizesThatNoModelHas(t *testing.T) {
	for _, c := range []struct {
		table, columns string
		values         []int64
		want           string
	}{
		{"context_attention_perf", "num_heads num_key_value_heads head_dim", []int64{8, 1, 128}, ""},
		{"context_attention_perf", "num_heads num_key_value_heads head_dim", []int64{1, 8, 128},
			"num_key_value_heads is above num_heads in 1 rows, such as num_heads=1"},
		{"context_attention_perf", "num_heads num_key_value_heads head_dim", []int64{128, 1, 8},
			"head_dim is not from 16 to 2048 in 1 rows"},
		{"generation_attention_perf", "batch_size isl step", []int64{64, 1, 4095}, ""},
		{"generation_attention_perf", "batch_size isl step", []int64{1, 64, 4095}, "isl is not 1 in 1 rows"},
		{"wideep_generation_mla_perf", "batch_size isl step", []int64{1, 64, 4095}, ""},
		{"gdn_perf", "batch_size seq_len num_tokens", []int64{4, 8, 32}, ""},
		{"gdn_perf", "batch_size seq_len num_tokens", []int64{4, 9, 32}, "num_tokens is not batch_size times seq_len"},
		{"moe_perf", "topk num_experts hidden_size", []int64{22, 896, 2048}, ""},
		{"moe_perf", "topk num_experts hidden_size", []int64{8, 7168, 256}, "num_experts is above hidden_size"},
		{"nccl_perf", "num_gpus message_size", []int64{72, 128}, ""},
		{"nccl_perf", "num_gpus message_size", []int64{4096, 8}, "num_gpus is not from 1 to 1024"},
	} {
		perf, _ := catalog.Lookup(c.table)
		names, cols := strings.Fields(c.columns), []arrow.Array(nil)
		for _, v := range c.values {
			cols = append(cols, table.Constant(v, 1))
		}
		rec := table.NewRecord(append(names, "latency"), append(cols, table.Constant(0.1, 1)))
		got := strings.Join(prepare(t, rec, perf).Limits(0.05).Problems, "; ")
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s of %v: %q", c.columns, c.values, got)
		}
	}
}

// A few rows may be faster than the peaks, because their operands stayed in a cache.
func TestLimitsAllowCachedRows(t *testing.T) {
	perf, _ := catalog.Lookup("gemm_perf")
	const n = 4000
	few := func(fast int) *rules.Table {
		latency := make([]float64, n)
		for i := range latency {
			latency[i] = 0.0085 + 1e-6*float64(i)
			if i < fast {
				latency[i] = 0.0055 + 1e-6*float64(i)
			}
		}
		ms := make([]int64, n)
		for i := range ms {
			ms[i] = int64(i%8 + 1)
		}
		rec := table.NewRecord([]string{"gemm_dtype", "m", "n", "k", "latency"}, []arrow.Array{
			table.Constant("bfloat16", n), table.Ints(ms, nil), table.Constant(int64(4096), n), table.Constant(int64(4096), n),
			table.Floats(latency, nil)})
		return prepare(t, rec, perf)
	}

	for fast, want := range map[int]int{0: 0, 4: 0, 5: 5} {
		if res := few(fast).Limits(0.05); len(res.Offences) != want {
			t.Errorf("%d of %d rows are faster than the peaks: %d offences, want %d", fast, n, len(res.Offences), want)
		}
	}
}

func TestOutliers(t *testing.T) {
	every := func(step int, by float64) func(int, float64) float64 {
		return func(i int, v float64) float64 {
			if i%step == step/2 {
				return v * by
			}
			return v
		}
	}

	for name, c := range map[string]struct {
		change func(int, float64) float64
		want   int
	}{
		"smooth":                 {same, 0},
		"a few rows doubled":     {every(100, 2), 0},
		"one row in 30 doubled":  {every(30, 2), 1},
		"one row in 30 halved":   {every(30, 0.5), 1},
		"all rows slower by two": {times(2), 0},
		"one row a thousandfold": {func(i int,
			v float64) float64 {
			return v * map[bool]float64{true: 1000, false: 1}[i == 100]
		}, 1},
	} {
		res := gemm(t, c.change).Outliers()
		if (len(res.Offences) > 0) != (c.want > 0) {
			t.Errorf("%s: %d offences", name, len(res.Offences))
		}
	}
}

// TestOutlierOfSmallTable checks that one row of ten times its neighbours is an offence in a table of a hundred rows,
// where a share of the rows is less than one.
func TestOutlierOfSmallTable(t *testing.T) {
	for by, want := range map[float64]int{1: 0, 5: 0, 10: 1} {
		var m []int64
		var ms []float64
		for i := range int64(100) {
			m, ms = append(m, 64*(i+1)), append(ms, 0.01*float64(i+1))
		}
		ms[40] *= by

		rec := table.NewRecord([]string{"m", "latency"}, []arrow.Array{table.Ints(m, nil), table.Floats(ms, nil)})
		tab, err := rules.New(rec, nil, []string{"m"})
		if err != nil {
			t.Fatal(err)
		}
		if res := tab.Outliers(); len(res.Offences) != want {
			t.Errorf("a row of %g times its neighbours: %d offences", by, len(res.Offences))
		}
	}
}

// TestFallsAlongHeads checks that rows of 8 and of 64 heads which were exchanged are found, although query and value
// heads change together.
func TestFallsAlongHeads(t *testing.T) {
	perf, _ := catalog.Lookup("kda_perf")
	for _, exchanged := range []bool{false, true} {
		var length, heads []int64
		var ms []float64
		for n := int64(256); n <= 1<<15; n *= 2 {
			for _, h := range []int64{8, 16, 32, 64} {
				length, ms = append(length, n), append(ms, 1e-5*float64(n*h))
				if exchanged && (h == 8 || h == 64) {
					h = 72 - h
				}
				heads = append(heads, h)
			}
		}
		rec := table.NewRecord([]string{"seq_len", "num_k_heads", "num_v_heads", "latency"}, []arrow.Array{
			table.Ints(length, nil), table.Ints(heads, nil), table.Ints(heads, nil), table.Floats(ms, nil)})
		res, steps := prepare(t, rec, perf).Falls()
		if steps == 0 || len(res.Offences) > 0 != exchanged {
			t.Errorf("exchanged %v: %d falls in %d steps", exchanged, len(res.Offences), steps)
		}
	}
}

// TestStepsOfOneModel: kernels of 256 tokens a tile take as long for 257 tokens as for 512. A table of one weight
// shows such steps on its only axis, where a wrong row still stands apart.
func TestStepsOfOneModel(t *testing.T) {
	var m []int64
	var ms []float64
	for tiles := 1; tiles <= 40; tiles++ {
		for _, tokens := range []int{256 * tiles, 256*tiles + 1} {
			m = append(m, int64(tokens))
			ms = append(ms, 0.05*math.Exp2(float64((tokens+255)/256)))
		}
	}
	offences := func() int {
		rec := table.NewRecord([]string{"m", "latency"}, []arrow.Array{table.Ints(m, nil), table.Floats(ms, nil)})
		tab, err := rules.New(rec, nil, []string{"m"})
		if err != nil {
			t.Fatal(err)
		}
		return len(tab.Outliers().Offences)
	}
	if n := offences(); n != 0 {
		t.Errorf("%d rows at steps are offences", n)
	}
	for i := 10; i < 60; i += 10 {
		ms[i] *= 3
	}
	if n := offences(); n == 0 {
		t.Error("no row of five that take three times as long is an offence")
	}
}

// A row between two neighbours is compared with the line between them on logarithmic scales.
func TestResiduals(t *testing.T) {
	rec := table.NewRecord([]string{"m", "n", "latency"}, []arrow.Array{table.Ints([]int64{1, 2, 4, 8, 16}, nil),
		table.Constant(int64(8), 5), table.Floats([]float64{1, 2, 12, 8, math.NaN()}, nil)})
	tab, err := rules.New(rec, nil, []string{"m", "n"})
	if err != nil {
		t.Fatal(err)
	}

	got, _ := tab.Residuals()
	want := []float64{math.NaN(), math.Log(2 / math.Sqrt(12)), math.Log(3), math.NaN(), math.NaN()}
	for i := range want {
		if math.IsNaN(want[i]) != math.IsNaN(got[i]) || math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("row %d: %v, want %v", i, got[i], want[i])
		}
	}
}

func TestFalls(t *testing.T) {
	saw := func(i int, v float64) float64 { return v * map[bool]float64{true: 1, false: 20}[i%2 == 0] }
	res, steps := gemm(t, saw).Falls()
	if len(res.Offences) < 10 || steps < 100 || !strings.Contains(res.Offences[0].Note, "along m") {
		t.Errorf("%d falls in %d steps", len(res.Offences), steps)
	}

	if res, _ := gemm(t, same).Falls(); len(res.Offences) != 0 {
		t.Errorf("rising times fall: %+v", res.Offences)
	}
}

func TestCopies(t *testing.T) {
	sound := gemm(t, same)
	n := len(sound.Values) / 2
	copied := func(share int) *rules.Table {
		return gemm(t, func(i int, v float64) float64 {
			if i >= n && i%100 < share {
				return sound.Values[i-n]
			}
			return v
		})
	}

	for share, want := range map[int]bool{0: false, 3: false, 25: true, 100: true} {
		res := copied(share).Copies()
		if got := len(res.Problems) > 0; got != want || got && !strings.Contains(res.Problems[0], "another gemm_dtype") {
			t.Errorf("%d %% of the rows are copies: %q", share, res.Problems)
		}
	}

	// Rows may differ in several formats at once.
	perf, _ := catalog.Lookup("context_mla_perf")
	for share, want := range map[float64]bool{1.5: false, 1: true} {
		formats, isl, latency := []string(nil), []int64(nil), []float64(nil)
		for i, format := range []string{"bfloat16", "fp8"} {
			for n := range int64(40) {
				formats, isl = append(formats, format), append(isl, n+1)
				latency = append(latency, math.Pow(share, float64(i)*float64(n))*(0.0123456+0.0034567*float64(n)))
			}
		}
		res := prepare(t, table.NewRecord([]string{"mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl", "step",
			"latency"}, []arrow.Array{table.Texts(formats, nil), table.Texts(formats, nil), table.Constant(int64(8), 80),
			table.Constant(int64(1), 80), table.Ints(isl, nil), table.Constant(int64(0), 80), table.Floats(latency, nil)}),
			perf).Copies()
		got := strings.Join(res.Problems, "; ")
		if strings.Contains(got, "80 of 80 rows have to the last digit the latency of a row with another mla_dtype, "+
			"kv_cache_dtype") != want || (got != "") != want {
			t.Errorf("%g: %q", share, got)
		}
	}
}

func TestPower(t *testing.T) {
	base := gemm(t, same)
	n := len(base.Values)
	watts := make([]float64, n)
	for i := range watts {
		watts[i] = 300 + float64(i%100)
	}

	if _, ok := base.Power(); ok {
		t.Error("a table without power is judged")
	}

	for name, c := range map[string]struct {
		first, limit float64 // of the first row
		offences     int
	}{
		"sound":                    {350, 700, 0},
		"at the limit and 5 %":     {735, 700, 0},
		"above the limit":          {736, 700, 1},
		"above its own limit":      {530, 500, 1},
		"an absurd limit":          {5000, 1e6, 1},
		"a limit above the system": {800, 900, 1},
		"nothing":                  {0, 700, 1},
		"negative":                 {-5, 700, 1},
		"NaN":                      {math.NaN(), 700, 1},
	} {
		w, l := slices.Clone(watts), slices.Repeat([]float64{700}, n)
		w[0], l[0] = c.first, c.limit
		rec := table.WithColumn(table.WithColumn(base.Rec, "power", table.Floats(w, nil)), "power_limit",
			table.Floats(l, nil))
		res, ok := prepare(t, rec, base.Perf).Power()
		if !ok || len(res.Offences) != c.offences || len(res.Problems) != 0 {
			t.Errorf("%s: %+v %q", name, res.Offences, res.Problems)
		}
	}

	idle := prepare(t, table.WithColumn(base.Rec, "power", table.Constant(75.0, n)), base.Perf)
	if res, _ := idle.Power(); len(res.Problems) != 1 || !strings.Contains(res.Problems[0], "was it read once?") {
		t.Errorf("%q", res.Problems)
	}
}

func TestProvenance(t *testing.T) {
	base := gemm(t, same)
	n := len(base.Values)
	want := rules.Origin{Framework: "trtllm", Version: "1.0", Device: "NVIDIA H200", Backend: "trtllm"}

	for name, c := range map[string]struct {
		column, value, message string
	}{
		"sound":           {"version", "1.0+cu130", ""},
		"any version":     {"version", "kernel-level", ""},
		"another version": {"version", "1.1", `have the version "1.1", not "1.0"`},
		"another device": {"device", "NVIDIA H100 80GB HBM3",
			`have the device "NVIDIA H100 80GB HBM3", not "NVIDIA H200"`},
		"another framework":       {"framework", "VLLM", `have the framework "VLLM", not "trtllm"`},
		"no version":              {"version", "", "have no version"},
		"a kernel of vLLM":        {"kernel_source", "vllm_flash_attn_fa3", "which belongs to vllm and not to trtllm"},
		"a kernel of SGLang":      {"kernel_source", "SGLang_CustomAllReduce_graph", "which belongs to sglang"},
		"a kernel of its own":     {"kernel_source", "torch_flow", ""},
		"a kernel of any backend": {"kernel_source", "cutlass", ""},
	} {
		tab := prepare(t, table.WithColumn(base.Rec, c.column, table.Constant(c.value, n)), base.Perf)
		var got []string
		for _, m := range tab.Provenance(want) {
			got = append(got, m.Message)
		}
		if all := strings.Join(got, "; "); !strings.Contains(all, c.message) || (c.message == "") != (all == "") {
			t.Errorf("%s: %q, want %q", name, all, c.message)
		}
	}

	other := prepare(t, table.WithColumn(base.Rec, "device", table.Constant("NVIDIA H100 80GB HBM3", n)), base.Perf)
	if got := other.Provenance(rules.Origin{}); len(got) != 1 ||
		!strings.Contains(got[0].Message, "not a device of h200_sxm") {
		t.Errorf("%+v", got)
	}

	lost := prepare(t, table.Drop(base.Rec, "device"), base.Perf)
	if got := lost.Provenance(want); len(got) != 1 || got[0].Message != "the data has no column device" {
		t.Errorf("%+v", got)
	}
}

// TestTablesThatNameDigests checks that rows need the digests that readers of their table need, and no columns that the
// table does not have.
func TestTablesThatNameDigests(t *testing.T) {
	for _, name := range []string{"glm53_attention_module_perf", "dsv41_module_perf"} {
		perf, _ := catalog.Lookup(name)
		rec := table.NewRecord([]string{"component", "geometry", "batch_size", "prefix", "x", "latency", "kernel_source",
			"used_cuda_graph", "sample_count", "kv_seed_regime", "source_sha256", "config_sha256", "runtime_digest",
			"execution_profile"}, []arrow.Array{
			table.Constant("attention", 1), table.Constant("{}", 1), table.Constant(int64(1), 1), table.Constant(int64(0), 1),
			table.Constant(int64(64), 1), table.Constant(0.1, 1), table.Constant("k", 1), table.Flags([]bool{true}, nil),
			table.Constant(int64(10), 1), table.Constant("real_kv", 1), table.Constant("8c", 1), table.Constant("97", 1),
			table.Constant("sha256:b2", 1), table.Constant("full", 1)})

		if got := prepare(t, rec, perf).Provenance(rules.Origin{Version: "0.5.20", Backend: "sglang"}); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		got := strings.Join(rules.Schema(rec, perf, rules.SchemaOptions{Words: true, Kernel: true}), "; ")
		if got != "the column measurement_scope is missing" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestUnusable(t *testing.T) {
	for v, want := range map[float64]string{1: "", 0: "x is zero", -1: "x is negative", math.Inf(1): "x is infinite"} {
		if got := rules.Unusable("x", v, false); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if rules.Unusable("x", 0, true) != "" || rules.Unusable("x", math.NaN(), true) != "x is NaN" {
		t.Error("zero may be data, NaN is none")
	}
}

// A copy of 16 KiB takes a processor 0.2 us, so the time of a launch is no limit for rows of no perf table.
func TestLimitsOfProcessors(t *testing.T) {
	for latency, want := range map[float64]int{0.000188: 0, 1e-9: 1} {
		rec := table.NewRecord([]string{"kernel", "size_bytes", "latency"}, []arrow.Array{
			table.Constant("copy", 1), table.Ints([]int64{16384}, nil), table.Floats([]float64{latency}, nil)})

		rows, err := rules.New(rec, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res := rows.Limits(0.05); len(res.Offences) != want {
			t.Errorf("a row of %g ms: %d offences, want %d", latency, len(res.Offences), want)
		}
	}
}
