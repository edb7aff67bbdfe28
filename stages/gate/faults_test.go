package gate

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/testutil"
	"aicplan/sink/lint"
	"aicplan/sink/perf"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
	"aicplan/stages/importer"
)

// publishedDirs returns databases of published H200 tables: the folder in AICPLAN_PUBLISHED, laid out as
// FAMILY/BACKEND/VERSION/TABLE.parquet, else the excerpts in the repository.
func publishedDirs() []string {
	if dir := os.Getenv("AICPLAN_PUBLISHED"); dir != "" {
		return []string{dir}
	}
	return []string{"testdata/published", "../../sink/testdata/published/h200_sxm"}
}

// published returns the folder and the path below it of a table, "" if there is none.
func published(t testing.TB, file string) (dir, rel string) {
	t.Helper()
	for _, dir := range publishedDirs() {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(file)))
		must(t, err)
		if len(found) > 0 {
			rel, err := filepath.Rel(dir, found[0])
			must(t, err)
			return dir, rel
		}
	}
	return "", ""
}

// frame is a table whose columns a fault changes in place.
type frame struct {
	names  []string
	floats map[string][]float64
	ints   map[string][]int64
	words  map[string][]string
	nulls  map[string]bool // columns of which the first ten rows are null
	n      int
	rng    *rand.Rand
}

func newFrame(t testing.TB, rec arrow.Record) *frame {
	t.Helper()
	f := &frame{floats: map[string][]float64{}, ints: map[string][]int64{}, words: map[string][]string{},
		nulls: map[string]bool{}, n: int(rec.NumRows())}
	for i, name := range table.Names(rec) {
		f.names = append(f.names, name)

		switch rec.Column(i).DataType().ID() {
		case arrow.FLOAT64:
			col, err := table.Float64s(rec, name)
			must(t, err)
			f.floats[name] = slices.Clone(col.Values)
		case arrow.INT64:
			col, err := table.Int64s(rec, name)
			must(t, err)
			f.ints[name] = slices.Clone(col.Values)
		default:
			col, err := table.Strings(rec, name)
			must(t, err)
			f.words[name] = slices.Clone(col.Values)
		}
	}
	return f
}

func (f *frame) clone() *frame {
	out := &frame{names: slices.Clone(f.names), nulls: maps.Clone(f.nulls), n: f.n, rng: rand.New(rand.NewPCG(7, 11)),
		floats: map[string][]float64{}, ints: map[string][]int64{}, words: map[string][]string{}}
	for _, name := range f.names {
		if v := f.floats[name]; v != nil {
			out.floats[name] = slices.Clone(v)
		}
		if v := f.ints[name]; v != nil {
			out.ints[name] = slices.Clone(v)
		}
		if v := f.words[name]; v != nil {
			out.words[name] = slices.Clone(v)
		}
	}
	return out
}

func (f *frame) equal(o *frame) bool {
	return slices.Equal(f.names, o.names) && maps.Equal(f.nulls, o.nulls) &&
		maps.EqualFunc(f.floats, o.floats, slices.Equal) &&
		maps.EqualFunc(f.ints, o.ints, slices.Equal) && maps.EqualFunc(f.words, o.words, slices.Equal)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *frame) record() arrow.Record {
	var cols []arrow.Array
	for _, name := range f.names {
		var valid []bool
		if f.nulls[name] {
			valid = make([]bool, f.n)
			for i := range valid {
				valid[i] = i >= 10
			}
		}

		switch {
		case f.floats[name] != nil:
			cols = append(cols, table.Floats(f.floats[name], valid))
		case f.ints[name] != nil:
			cols = append(cols, table.Ints(f.ints[name], valid))
		default:
			cols = append(cols, table.Texts(f.words[name], valid))
		}
	}
	return table.NewRecord(f.names, cols)
}

// take keeps the given rows, in that order.
func (f *frame) take(rows []int) {
	for _, name := range f.names {
		if v := f.floats[name]; v != nil {
			f.floats[name] = chosen(v, rows)
		}
		if v := f.ints[name]; v != nil {
			f.ints[name] = chosen(v, rows)
		}
		if v := f.words[name]; v != nil {
			f.words[name] = chosen(v, rows)
		}
	}
	f.n = len(rows)
}

func chosen[T any](list []T, rows []int) []T {
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = list[r]
	}
	return out
}

// keep drops the rows for which ok is false.
func (f *frame) keep(ok func(i int) bool) {
	var rows []int
	for i := range f.n {
		if ok(i) {
			rows = append(rows, i)
		}
	}
	f.take(rows)
}

// repeat appends a copy of a share of the rows and returns their positions.
func (f *frame) repeat(share float64) []int {
	rows := make([]int, f.n)
	for i := range rows {
		rows[i] = i
	}

	var added []int
	for i := range f.n {
		if f.rng.Float64() < share {
			added = append(added, len(rows))
			rows = append(rows, i)
		}
	}

	f.take(rows)
	return added
}

// scale multiplies the latency of the rows for which ok holds.
func (f *frame) scale(by float64, ok func(i int) bool) {
	for i := range f.n {
		if ok == nil || ok(i) {
			f.floats["latency"][i] *= by
		}
	}
}

func (f *frame) some(share float64) func(int) bool {
	return func(int) bool { return f.rng.Float64() < share }
}

func (f *frame) is(column, word string) func(int) bool {
	return func(i int) bool { return f.words[column][i] == word }
}

// key identifies a row by its columns but for those listed and what was measured.
func (f *frame) key(i int, without ...string) string {
	var b strings.Builder
	for _, name := range f.names {
		if slices.Contains(without, name) {
			continue
		}
		if v := f.ints[name]; v != nil {
			fmt.Fprint(&b, v[i], " ")
		}
		if v := f.words[name]; v != nil {
			fmt.Fprint(&b, v[i], " ")
		}
	}
	return b.String()
}

// copyGroup gives rows of one value of a column the latency of those of another one.
func (f *frame) copyGroup(column string, from, to func(i int) bool, without ...string) {
	without = append(without, column)
	values := map[string]float64{}
	for i := range f.n {
		if from(i) {
			values[f.key(i, without...)] = f.floats["latency"][i]
		}
	}
	for i := range f.n {
		if v, ok := values[f.key(i, without...)]; ok && to(i) {
			f.floats["latency"][i] = v
		}
	}
}

func (f *frame) swap(a, b string, ok func(i int) bool) {
	for i := range f.n {
		if ok == nil || ok(i) {
			f.ints[a][i], f.ints[b][i] = f.ints[b][i], f.ints[a][i]
		}
	}
}

func (f *frame) number(column string, value int64) func(int) bool {
	return func(i int) bool { return f.ints[column][i] == value }
}

func (f *frame) relabel(column, word string, ok func(i int) bool) {
	for i := range f.n {
		if ok == nil || ok(i) {
			f.words[column][i] = word
		}
	}
}

// Files of the faults, relative to a folder of publishedDirs. Versions differ between the folders.
const (
	fileGEMM       = "gemm/trtllm/*/gemm_perf.parquet"
	fileMoE        = "moe/trtllm/*/moe_perf.parquet"
	fileNCCL       = "comm/nccl/2.29.2/nccl_perf.parquet"
	fileReduce     = "comm/trtllm/*/custom_allreduce_perf.parquet"
	fileContext    = "attention/trtllm/*/context_attention_perf.parquet"
	fileGeneration = "attention/trtllm/*/generation_attention_perf.parquet"
	filePower      = "attention/vllm/0.22.0/context_attention_perf.parquet"
	fileScale      = "quantize/trtllm/*/scale_matrix_perf.parquet"
	fileDifference = "quantize/trtllm/*/computescale_perf.parquet"
	fileBMM        = "mla_bmm/trtllm/*/mla_bmm_perf.parquet"
)

// fault is one way in which a published table is spoiled. text changes the bytes of a CSV file instead.
type fault struct {
	name   string
	file   string
	change func(f *frame)
	text   func(csv []byte) []byte
}

func faults() []fault {
	all := func(int) bool { return true }
	us := func(f *frame) { f.scale(1000, nil) }
	seconds := func(f *frame) { f.scale(1e-3, nil) }
	set := func(rows int, value float64) func(f *frame) {
		return func(f *frame) {
			for i := range rows {
				f.floats["latency"][i*f.n/rows] = value
			}
		}
	}
	part := func(share, by float64) func(f *frame) { return func(f *frame) { f.scale(by, f.some(share)) } }
	power := func(of func(f *frame, i int) float64) func(f *frame) {
		return func(f *frame) {
			for i := range f.n {
				f.floats["power"][i] = of(f, i)
			}
		}
	}
	largest := func(column string) func(f *frame) {
		return func(f *frame) {
			most := slices.Max(f.ints[column])
			f.keep(func(i int) bool { return f.ints[column][i] != most })
		}
	}

	return []fault{
		{"all rows in us", fileGEMM, us, nil},
		{"all rows in us", fileMoE, us, nil},
		{"all rows in us", fileNCCL, us, nil},
		{"all rows in us", fileContext, us, nil},
		{"all rows in us", fileScale, us, nil},
		{"one dtype in us", fileGEMM, func(f *frame) { f.scale(1000, f.is("gemm_dtype", "fp8")) }, nil},
		{"one dtype in us", fileMoE, func(f *frame) { f.scale(1000, f.is("moe_dtype", "fp8_block")) }, nil},
		{"one collective in us", fileNCCL, func(f *frame) { f.scale(1000, f.is("op_name", "all_gather")) }, nil},
		{"1 % of rows in us", fileGEMM, part(0.01, 1000), nil},
		{"1 % of rows in us", fileMoE, part(0.01, 1000), nil},
		{"all rows in s", fileGEMM, seconds, nil},
		{"all rows in s", fileMoE, seconds, nil},
		{"all rows in s", fileNCCL, seconds, nil},
		{"one dtype in s", fileGEMM, func(f *frame) { f.scale(1e-3, f.is("gemm_dtype", "fp8")) }, nil},
		{"1 % of rows in s", fileGEMM, part(0.01, 1e-3), nil},
		{"1 % of rows in s", fileMoE, part(0.01, 1e-3), nil},
		{"columns rotated", fileGEMM, func(f *frame) {
			f.ints["m"], f.ints["n"], f.ints["k"] = f.ints["n"], f.ints["k"], f.ints["m"]
		}, nil},
		{"latency shifted by one row", fileGEMM, func(f *frame) {
			l := f.floats["latency"]
			f.floats["latency"] = append(l[1:], l[0])
		}, nil},
		{"m and n swapped in rows of small m", fileGEMM, func(f *frame) {
			f.swap("m", "n", func(i int) bool { return f.ints["m"][i] <= 64 && f.words["gemm_dtype"][i] == "bfloat16" })
		}, nil},
		{"n and k of one dtype swapped", fileGEMM, func(f *frame) { f.swap("n", "k", f.is("gemm_dtype", "fp8")) }, nil},
		{"5 % of rows of an older version", fileGEMM, func(f *frame) { f.relabel("version", "1.2.0", f.some(0.05)) }, nil},
		{"5 % of rows faster by 1.3", fileGEMM, part(0.05, 1/1.3), nil},
		{"all of the largest m missing", fileGEMM, largest("m"), nil},
		{"all of the largest num_tokens missing", fileMoE, largest("num_tokens"), nil},
		{"a dtype missing", fileGEMM, func(f *frame) {
			f.keep(func(i int) bool { return f.words["gemm_dtype"][i] != "fp8_block" })
		}, nil},
		{"tensor parallelism 8 copied from 4", fileMoE, func(f *frame) {
			f.copyGroup("moe_tp_size", f.number("moe_tp_size", 4), f.number("moe_tp_size", 8))
		}, nil},
		{"8 GPUs copied from 4", fileNCCL, func(f *frame) {
			f.copyGroup("num_gpus", f.number("num_gpus", 4), f.number("num_gpus", 8))
		}, nil},
		{"2 GPUs copied to 4 and 8", fileReduce, func(f *frame) {
			f.copyGroup("num_gpus", f.number("num_gpus", 2), all, "kernel_source", "implementation")
		}, nil},
		{"plateau above m = 2048", fileGEMM, func(f *frame) {
			f.copyGroup("m", f.number("m", 2048), func(i int) bool { return f.ints["m"][i] > 2048 })
		}, nil},
		{"plateau above isl = 4096", fileContext, func(f *frame) {
			f.copyGroup("isl", f.number("isl", 4096), func(i int) bool { return f.ints["isl"][i] > 4096 })
		}, nil},
		{"all latencies 0.05", fileGEMM, func(f *frame) { set(f.n, 0.05)(f) }, nil},
		{"1 % of rows halved", fileGEMM, part(0.01, 0.5), nil},
		{"1 % of rows doubled", fileGEMM, part(0.01, 2), nil},
		{"1 % of rows doubled", fileMoE, part(0.01, 2), nil},
		{"1 % of rows times 10", fileGEMM, part(0.01, 10), nil},
		{"every seventh row times 1000", fileGEMM, func(f *frame) { f.scale(1000, func(i int) bool { return i%7 == 0 }) },
			nil},
		{"a tenth of the rows throttled by 1.35", fileGEMM, func(f *frame) {
			f.scale(1.35, func(i int) bool { return i > f.n/3 && i < f.n/3+f.n/10 })
		}, nil},
		{"rows of m > 512 throttled by 1.25", fileGEMM, func(f *frame) {
			f.scale(1.25, func(i int) bool { return f.ints["m"][i] > 512 })
		}, nil},
		{"duplicates of another kernel, x 0.6", fileGEMM, func(f *frame) {
			for _, i := range f.repeat(0.1) {
				f.floats["latency"][i] *= 0.6
				f.words["kernel_source"][i] = "other"
			}
		}, nil},
		{"duplicates x 1.5", fileGEMM, func(f *frame) {
			for _, i := range f.repeat(0.3) {
				f.floats["latency"][i] *= 1.5
			}
		}, nil},
		{"duplicates within 10 %", fileGEMM, func(f *frame) {
			for _, i := range f.repeat(0.3) {
				f.floats["latency"][i] *= 1.09
			}
		}, nil},
		{"exact duplicates", fileGEMM, func(f *frame) { f.repeat(0.3) }, nil},
		{"half of the rows", fileGEMM, func(f *frame) { f.keep(func(i int) bool { return i < f.n/2 }) }, nil},
		{"CSV cut in the last number", fileGEMM, nil, func(b []byte) []byte { return b[:len(b)-6] }},
		{"CSV without its last newline", fileGEMM, nil, func(b []byte) []byte { return b[:len(b)-1] }},
		{"CSV with text for numbers", fileGEMM, nil, func(b []byte) []byte {
			return append(b[:len(b)-5], []byte("N/A\n")...)
		}},
		{"CSV with a header in the middle", fileGEMM, nil, func(b []byte) []byte {
			return append(b, b[:bytes.IndexByte(b, '\n')+1]...)
		}},
		{"CSV with decimal commas", fileGEMM, nil, func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("0."), []byte("0,"))
		}},
		{"one row of 1e-9", fileGEMM, set(1, 1e-9), nil},
		{"one row of 1e-9", fileMoE, set(1, 1e-9), nil},
		{"five rows of 1e-9", fileNCCL, set(5, 1e-9), nil},
		{"one row of 1e9", fileMoE, set(1, 1e9), nil},
		{"one row of 1e9", fileGEMM, set(1, 1e9), nil},
		{"a tenth of power above the limit", filePower, power(func(f *frame, i int) float64 {
			return f.floats["power"][i] + map[bool]float64{true: 900}[i%10 == 0]
		}), nil},
		{"power in mW", filePower, power(func(f *frame, i int) float64 { return f.floats["power"][i] * 1000 }), nil},
		{"power and power_limit too high", filePower, func(f *frame) {
			for i := range f.n {
				f.floats["power"][i], f.floats["power_limit"][i] = 5000+float64(i%7), 1e6
			}
		}, nil},
		{"power of an idle board", filePower, power(func(*frame, int) float64 { return 75 }), nil},
		{"all rows of another device", fileGEMM, func(f *frame) { f.relabel("device", "NVIDIA H100 80GB HBM3", nil) }, nil},
		{"one row of another device", fileGEMM, func(f *frame) {
			f.relabel("device", "NVIDIA H100 80GB HBM3", func(i int) bool { return i == 5 })
		}, nil},
		{"times of slower memory", fileGeneration, func(f *frame) { f.scale(1.43, nil) }, nil},
		{"labels of two dtypes swapped", fileGEMM, func(f *frame) {
			for i, w := range f.words["gemm_dtype"] {
				f.words["gemm_dtype"][i] = map[string]string{"bfloat16": "fp8", "fp8": "bfloat16"}[w]
				if f.words["gemm_dtype"][i] == "" {
					f.words["gemm_dtype"][i] = w
				}
			}
		}, nil},
		{"fp8 is a copy of bfloat16", fileGEMM, func(f *frame) {
			f.copyGroup("gemm_dtype", f.is("gemm_dtype", "bfloat16"), f.is("gemm_dtype", "fp8"), "kernel_source")
		}, nil},
		{"bfloat16 is a copy of fp8", fileGEMM, func(f *frame) {
			f.copyGroup("gemm_dtype", f.is("gemm_dtype", "fp8"), f.is("gemm_dtype", "bfloat16"), "kernel_source")
		}, nil},
		{"kernels of another framework", fileGEMM, func(f *frame) { f.relabel("kernel_source", "vllm_default", nil) }, nil},
		{"rounded up to 0.01 ms", fileGEMM, func(f *frame) {
			for i, v := range f.floats["latency"] {
				f.floats["latency"][i] = math.Ceil(v*100) / 100
			}
		}, nil},
		{"5 us of launch in every row", fileGEMM, func(f *frame) {
			for i := range f.n {
				f.floats["latency"][i] += 0.005
			}
		}, nil},
		{"a sum of six runs", fileGEMM, func(f *frame) { f.scale(6, nil) }, nil},
		{"a sum of six runs", fileMoE, func(f *frame) { f.scale(6, nil) }, nil},
		{"generation attention halved", fileGeneration, func(f *frame) { f.scale(0.5, nil) }, nil},
		{"message sizes doubled", fileNCCL, func(f *frame) {
			for i := range f.n {
				f.ints["message_size"][i] *= 2
			}
		}, nil},
		{"message sizes doubled", fileReduce, func(f *frame) {
			for i := range f.n {
				f.ints["message_size"][i] *= 2
			}
		}, nil},
		{"8 GPUs labelled 4", fileNCCL, func(f *frame) {
			for i, v := range f.ints["num_gpus"] {
				if v == 8 {
					f.ints["num_gpus"][i] = 4
				}
			}
		}, nil},
		{"a dtype with a trailing space", fileGEMM, func(f *frame) {
			f.relabel("gemm_dtype", "fp8 ", func(i int) bool { return i < 50 })
		}, nil},
		{"a dtype in capitals", fileGEMM, func(f *frame) {
			f.relabel("gemm_dtype", "BF16", func(i int) bool { return i < 50 })
		}, nil},
		{"m off by one", fileGEMM, func(f *frame) {
			for i := range f.n {
				f.ints["m"][i]++
			}
		}, nil},
		{"m of 0 and -1", fileGEMM, func(f *frame) { f.ints["m"][0], f.ints["m"][1] = 0, -1 }, nil},
		{"no kernel_source", fileGEMM, func(f *frame) {
			f.names = slices.DeleteFunc(f.names, func(n string) bool { return n == "kernel_source" })
		}, nil},
		{"kernel_source null in ten rows", fileGEMM, func(f *frame) { f.nulls["kernel_source"] = true }, nil},
		{"latency sorted by itself", fileGEMM, func(f *frame) { slices.Sort(f.floats["latency"]) }, nil},
		{"latency shuffled", fileGEMM, func(f *frame) {
			l := f.floats["latency"]
			f.rng.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		}, nil},
		{"window_size lost", fileContext, func(f *frame) {
			for i := range f.ints["window_size"] {
				f.ints["window_size"][i] = 0
			}
		}, nil},
		{"key/value heads lost", fileContext, func(f *frame) {
			copy(f.ints["num_key_value_heads"], f.ints["num_heads"])
		}, nil},
		{"query and key/value heads swapped", fileContext, func(f *frame) { f.swap("num_heads", "num_key_value_heads", nil) },
			nil},
		{"num_gpus and message_size swapped", fileNCCL, func(f *frame) { f.swap("num_gpus", "message_size", nil) }, nil},
		{"hidden_size and num_experts swapped", fileMoE, func(f *frame) { f.swap("hidden_size", "num_experts", nil) }, nil},
		{"batch_size and isl swapped", fileContext, func(f *frame) { f.swap("batch_size", "isl", nil) }, nil},
		{"step lost", fileGeneration, func(f *frame) {
			for i := range f.ints["step"] {
				f.ints["step"][i] = 1
			}
		}, nil},
		{"latency in us beside a column latency_ms", fileGEMM, func(f *frame) {
			f.names, f.floats["latency_ms"] = append(f.names, "latency_ms"), slices.Clone(f.floats["latency"])
			us(f)
		}, nil},
		{"latency as text", fileGEMM, func(f *frame) {
			for _, v := range f.floats["latency"] {
				f.words["latency"] = append(f.words["latency"], fmt.Sprint(v))
			}
			delete(f.floats, "latency")
		}, nil},
		{"latency as whole milliseconds", fileContext, func(f *frame) {
			for i, v := range f.floats["latency"] {
				f.floats["latency"][i] = math.Trunc(v)
			}
		}, nil},
		{"latency negative in 1 %", fileMoE, part(0.01, -1), nil},
		{"latency NaN in one row", fileGEMM, set(1, math.NaN()), nil},
		{"batched products in us", fileBMM, us, nil},
		{"differences in us", fileDifference, us, nil},
		{"power in another unit in 2 %", filePower, power(func(f *frame, i int) float64 {
			return f.floats["power"][i] * map[bool]float64{true: 1000, false: 1}[i%50 == 0]
		}), nil},
	}
}

// pipelineGate decodes a gate of the shipped pipeline.
func pipelineGate(t testing.TB, name string) *Config {
	t.Helper()
	src, err := os.ReadFile("../../plans/modules/pipeline/pipeline.hcl")
	must(t, err)

	file, diags := hclsyntax.ParseConfig(src, "pipeline.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	deviation := cty.ObjectVal(map[string]cty.Value{"median": cty.NumberFloatVal(0.3), "spread": cty.NumberFloatVal(0.2)})
	s := scope{
		"var": cty.ObjectVal(map[string]cty.Value{"coverage": cty.NumberFloatVal(0.99), "coverage_by_key": cty.False,
			"system": systemValue(t), "deviation": deviation}),
		"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal("op"), "value": refValue("dedupe", "op")}),
		"gate": cty.ObjectVal(map[string]cty.Value{"op": cty.MapVal(map[string]cty.Value{"op": refValue("gate", "op")})}),
		"import": cty.ObjectVal(map[string]cty.Value{
			"published": cty.MapVal(map[string]cty.Value{"op": refValue("import", "published")})}),
	}

	for _, b := range file.Body.(*hclsyntax.Body).Blocks {
		if b.Type != "gate" || b.Labels[0] != name {
			continue
		}

		_, rest, diags := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "for_each"}}})
		if diags.HasErrors() {
			t.Fatal(diags)
		}

		c := Kind().New().(*Config)
		if diags := c.DecodeBody(rest, sourced{s, string(src)}); diags.HasErrors() {
			t.Fatal(diags)
		}
		return c
	}

	t.Fatalf("the pipeline has no gate %q", name)
	return nil
}

// truth is a published table with the cases that it answers, and what is found in it as it is.
type truth struct {
	dir, rel string
	data     *stage.Dataset
	planned  arrow.Record
	frame    *frame
	clean    verdict
}

// pipeline runs a file through import, dedupe and the gates of the shipped pipeline. The planned cases
// are the keys of the true table. It compares with the true table only if nothing else refuses the file.
func (of *truth) pipeline(t testing.TB, path string) (failed []string, compared bool) {
	t.Helper()
	set, err := importer.Load(path, importer.Options{System: "h200_sxm"})
	if err != nil {
		return []string{"import"}, false
	}

	d := dedupe.Kind().New().(*dedupe.Config)
	d.MaxRepeats = 0.005
	done, err := d.Run(t.Context(), &stage.RunContext{Address: "dedupe.op",
		Inputs: map[string]*stage.Dataset{"input": set.Data}})
	if err != nil {
		return []string{"dedupe"}, false
	}

	data := *done.Data
	data.Planned = of.planned
	data.Info.Params = of.data.Info.Params
	checks := done.Checks

	for _, name := range []string{"op", "published"} {
		c := pipelineGate(t, name)
		inputs := map[string]*stage.Dataset{}
		for i, in := range c.Inputs() {
			if inputs[in.Name] = of.data; i == 0 {
				inputs[in.Name] = &data
			}
		}

		o, err := c.Run(t.Context(), &stage.RunContext{Address: "gate." + name, Events: silent{}, Inputs: inputs})
		must(t, err)
		if name == "published" {
			return nil, o.Status == stage.StatusGateFailed
		}

		for _, c := range append(checks, o.Checks...) {
			if c.Result == ResultFail {
				failed = append(failed, c.Name)
			}
		}

		if len(without(failed, of.clean.checks)) > 0 {
			break
		}
	}

	return failed, false
}

// linted runs lint over a database with one file and returns the rules of severity error that are
// exceeded.
func linted(t testing.TB, root string) []string {
	t.Helper()
	r, err := lint.Run(t.Context(), root, lint.Options{Allow: map[string]int{"R1": 1 << 30}})
	must(t, err)
	if !r.Failed() {
		return nil
	}
	return r.Exceeded
}

// load reads a published table and judges it as it is.
func load(t testing.TB, dir, rel string) *truth {
	t.Helper()
	path := filepath.Join(dir, rel)
	set, err := importer.Load(path, importer.Options{System: "h200_sxm"})
	must(t, err)

	key := dedupe.KeyColumns(set.Data)
	if !slices.Contains(key, "kernel_source") {
		set.Data.Info.Params = key
	}

	rec, err := tree.ReadFile(path)
	must(t, err)
	of := &truth{dir: dir, rel: rel, data: set.Data, planned: set.Data.Table, frame: newFrame(t, rec)}
	of.clean = of.examine(t, fault{}, of.frame)
	return of
}

// missed are the faults that the gates of the pipeline do not find without a reference. Their rows are
// possible and fit to each other. With a reference all faults are found.
var missed = []string{"n and k of one dtype swapped", "a tenth of the rows throttled by 1.35",
	"rows of m > 512 throttled by 1.25"}

// missedByLint are the faults that lint does not find: it does not know which cases were planned.
var missedByLint = append([]string{"all of the largest m missing", "all of the largest num_tokens missing",
	"a dtype missing", "half of the rows", "message sizes doubled", "m off by one", "batch_size and isl swapped"},
	missed...)

// missedInExcerpts are further faults that lint finds in whole tables, by the keys that become equal.
var missedInExcerpts = []string{"m and n swapped in rows of small m", "key/value heads lost"}

// write writes a changed table below root, at its place in a database, and returns the path.
func (of *truth) write(t testing.TB, f fault, fr *frame, root string) string {
	t.Helper()
	path := filepath.Join(root, "h200_sxm", of.rel)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))

	var buf bytes.Buffer
	if f.text == nil {
		must(t, perf.WriteParquet(&buf, fr.record()))
		must(t, os.WriteFile(path, buf.Bytes(), 0o644))
		return path
	}

	must(t, perf.WriteCSV(&buf, fr.record()))
	path = strings.TrimSuffix(path, ".parquet") + ".csv"
	must(t, os.WriteFile(path, f.text(buf.Bytes()), 0o644))
	return path
}

// verdict is what the pipeline and lint report about a file: names of failed checks and exceeded rules.
type verdict struct {
	checks, rules []string
	compare       bool
}

// examine judges a changed table. Findings of the table as it was published do not count.
func (of *truth) examine(t testing.TB, f fault, fr *frame) verdict {
	t.Helper()
	root := t.TempDir()
	checks, compare := of.pipeline(t, of.write(t, f, fr, root))
	return verdict{without(checks, of.clean.checks), without(linted(t, root), of.clean.rules), compare}
}

// inject judges a table with a fault. ok is false if the fault changes nothing in it.
func (of *truth) inject(t testing.TB, f fault) (v verdict, ok bool) {
	t.Helper()
	fr := of.frame.clone()
	if f.change != nil {
		if f.change(fr); fr.equal(of.frame) {
			return v, false
		}
	}
	return of.examine(t, f, fr), true
}

// without returns the names of a that b lacks.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// TestFaultsAreCaught injects faults into published tables and runs them through the shipped pipeline and
// through lint. A fault is caught by what does not report the table as it was published. make test injects every second
// fault of a table.
func TestFaultsAreCaught(t *testing.T) {
	whole := os.Getenv("AICPLAN_PUBLISHED") != ""
	if !whole {
		missedByLint = append(missedByLint, missedInExcerpts...)
	}

	byFile := map[string][]fault{}
	for _, f := range faults() {
		byFile[f.file] = append(byFile[f.file], f)
	}

	var all, pipelines, lints atomic.Int32
	t.Run("tables", func(t *testing.T) {
		for file, list := range byFile {
			t.Run(strings.TrimSuffix(filepath.Base(file), "_perf.parquet"), func(t *testing.T) {
				t.Parallel()
				dir, rel := published(t, file)
				if dir == "" {
					t.Skip("the excerpts have no such table")
				}

				of := load(t, dir, rel)
				for i, f := range list {
					if i%testutil.Rounds(4, 1) != 0 {
						continue
					}
					v, ok := of.inject(t, f)
					if !ok {
						continue // the excerpts lack the rows
					}

					t.Logf("%-45s %v; compare %v; lint %v", f.name, v.checks, v.compare, v.rules)
					if all.Add(1); len(v.checks) > 0 {
						pipelines.Add(1)
					} else if !slices.Contains(missed, f.name) {
						t.Errorf("%s passes the pipeline", f.name)
					}

					if len(v.rules) > 0 {
						lints.Add(1)
					} else if !slices.Contains(missedByLint, f.name) {
						t.Errorf("%s passes lint", f.name)
					}

					if len(v.checks) == 0 && !v.compare {
						t.Errorf("%s passes the pipeline with a reference", f.name)
					}
				}
			})
		}
	})

	t.Logf("%d faults: the pipeline finds %d, lint %d", all.Load(), pipelines.Load(), lints.Load())
	if int(all.Load()) < testutil.Rounds(17, 70) {
		t.Errorf("only %d faults were injected", all.Load())
	}
}

// generalFaults apply to tables of every kind.
func generalFaults() []fault {
	part := func(share, by float64) func(f *frame) { return func(f *frame) { f.scale(by, f.some(share)) } }
	one := func(v float64) func(f *frame) { return func(f *frame) { f.floats["latency"][f.n/3] = v } }
	return []fault{
		{"all rows in us", "", func(f *frame) { f.scale(1000, nil) }, nil},
		{"all rows in ns", "", func(f *frame) { f.scale(1e6, nil) }, nil},
		{"all rows in s", "", func(f *frame) { f.scale(1e-3, nil) }, nil},
		{"1 % of rows in us", "", part(0.01, 1000), nil},
		{"1 % of rows in s", "", part(0.01, 1e-3), nil},
		{"2 % of rows times 3", "", part(0.02, 3), nil},
		{"2 % of rows divided by 3", "", part(0.02, 1.0/3), nil},
		{"1 % of rows times 10", "", part(0.01, 10), nil},
		{"one row of 1e-9", "", one(1e-9), nil},
		{"one row of 1e9", "", one(1e9), nil},
		{"one row infinite", "", one(math.Inf(1)), nil},
		{"a fifth of the rows missing", "", func(f *frame) { f.keep(func(i int) bool { return i%5 != 0 }) }, nil},
		{"the last third missing", "", func(f *frame) { f.keep(func(i int) bool { return i < 2*f.n/3 }) }, nil},
		{"latency shuffled", "", func(f *frame) {
			l := f.floats["latency"]
			f.rng.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		}, nil},
		{"all latencies equal", "", func(f *frame) {
			for i := range f.n {
				f.floats["latency"][i] = 0.123
			}
		}, nil},
		{"the largest value of each axis copied from the one before", "", func(f *frame) {
			for name, v := range f.ints {
				list := slices.Compact(slices.Sorted(slices.Values(v)))
				if len(list) < 4 || name == "isl" && len(list) < 8 {
					continue
				}
				last, before := list[len(list)-1], list[len(list)-2]
				f.copyGroup(name, f.number(name, before), f.number(name, last))
			}
		}, nil},
		{"a third of the rows twice", "", func(f *frame) { f.repeat(0.33) }, nil},
		{"rows of one word in us", "", func(f *frame) { f.scale(1000, f.lastWord()) }, nil},
		{"rows of one word in s", "", func(f *frame) { f.scale(1e-3, f.lastWord()) }, nil},
		{"rows of one word copied from another", "", func(f *frame) {
			name, list := f.wordAxis()
			if name != "" {
				f.copyGroup(name, f.is(name, list[0]), f.is(name, list[len(list)-1]))
			}
		}, nil},
		{"all of the largest value of an axis missing", "", func(f *frame) {
			if axes := f.axes(); len(axes) > 0 {
				most := slices.Max(f.ints[axes[0]])
				f.keep(func(i int) bool { return f.ints[axes[0]][i] != most })
			}
		}, nil},
		{"two axes exchanged", "", func(f *frame) {
			if axes := f.axes(); len(axes) > 1 {
				f.swap(axes[0], axes[1], nil)
			}
		}, nil},
		{"an axis off by one", "", func(f *frame) {
			if axes := f.axes(); len(axes) > 0 {
				for i := range f.n {
					f.ints[axes[0]][i]++
				}
			}
		}, nil},
		{"kernel_source null in ten rows", "", func(f *frame) { f.nulls["kernel_source"] = f.words["kernel_source"] != nil },
			nil},
		{"all rows of another device", "", func(f *frame) { f.relabel("device", "NVIDIA A100-SXM4-80GB", nil) }, nil},
		{"all rows times 6", "", func(f *frame) { f.scale(6, nil) }, nil},
		{"rounded up to 0.01 ms", "", func(f *frame) {
			for i, v := range f.floats["latency"] {
				f.floats["latency"][i] = math.Ceil(v*100) / 100
			}
		}, nil},
		{"ten rows negative", "", func(f *frame) { f.scale(-1, func(i int) bool { return i < 10 }) }, nil},
		{"CSV cut in the last number", "", nil, func(b []byte) []byte { return b[:len(b)-4] }},
		{"5 % of rows of another version", "", func(f *frame) { f.relabel("version", "0.0.1", f.some(0.05)) }, nil},
	}
}

// wholeTables runs a test for each whole table, several at a time. It skips without them.
func wholeTables(t *testing.T, run func(t *testing.T, of *truth)) {
	if os.Getenv("AICPLAN_PUBLISHED") == "" {
		t.Skip("AICPLAN_PUBLISHED names no folder with whole tables")
	}

	dir := publishedDirs()[0]
	t.Run("tables", func(t *testing.T) {
		must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".parquet" {
				return err
			}

			rel, err := filepath.Rel(dir, path)
			must(t, err)
			t.Run(strings.TrimSuffix(filepath.ToSlash(rel), ".parquet"), func(t *testing.T) {
				t.Parallel()
				run(t, load(t, dir, rel))
			})
			return nil
		}))
	})
}

// axes lists the columns of sizes with at least four values.
func (f *frame) axes() []string {
	return slices.DeleteFunc(slices.Clone(rules.Axes), func(name string) bool {
		v := f.ints[name]
		return v == nil || len(slices.Compact(slices.Sorted(slices.Values(v)))) < 4
	})
}

// wordAxis returns a column with the words of a kind of rows, such as a format of numbers, and its values.
// The name is "" if there is none.
func (f *frame) wordAxis() (name string, values []string) {
	for _, name := range f.names {
		if list := slices.Compact(slices.Sorted(slices.Values(f.words[name]))); strings.HasSuffix(name, "_dtype") &&
			len(list) > 1 {
			return name, list
		}
	}
	return "", nil
}

// lastWord selects the rows with the last value of wordAxis.
func (f *frame) lastWord() func(int) bool {
	name, list := f.wordAxis()
	if name == "" {
		return func(int) bool { return false }
	}
	return f.is(name, list[len(list)-1])
}

// TestGeneralFaults injects general faults into every whole table.
func TestGeneralFaults(t *testing.T) {
	var all, pipelines, lints, compared atomic.Int32
	wholeTables(t, func(t *testing.T, of *truth) {
		for _, f := range generalFaults() {
			v, ok := of.inject(t, f)
			if !ok {
				continue
			}

			if all.Add(1); len(v.checks) > 0 {
				pipelines.Add(1)
			}
			if len(v.checks) > 0 || v.compare {
				compared.Add(1)
			}
			if len(v.rules) > 0 {
				lints.Add(1)
			}
			t.Logf("%s: %-45s %v; compare %v; lint %v", of.rel, f.name, v.checks, v.compare, v.rules)
		}
	})

	t.Logf("%d faults: the pipeline finds %d, with a reference %d, lint %d", all.Load(), pipelines.Load(), compared.Load(),
		lints.Load())
	if float64(pipelines.Load()) < 0.9*float64(all.Load()) {
		t.Errorf("the pipeline finds only %d of %d faults", pipelines.Load(), all.Load())
	}
}

// TestPipelineReadsMeasuredColumns spoils what collectors report beside the latency.
func TestPipelineReadsMeasuredColumns(t *testing.T) {
	dir, rel := published(t, fileGEMM)
	of := load(t, dir, rel)
	n := int(of.data.Table.NumRows())

	spread := func(v float64) arrow.Array { return table.Constant(v, n) }
	flags := func(v bool) arrow.Array { return table.Constant(v, n) }
	power := make([]float64, n)
	for i := range power {
		power[i] = 300 + float64(i%200)
	}

	sound := map[string]arrow.Array{"throttled": flags(false), "used_cuda_graph": flags(true), "rel_stdev": spread(0.01),
		"pass_spread": spread(0.02), "relative_error": spread(0.001), "power": table.Floats(power, nil)}

	for name, c := range map[string]struct {
		column, check string
		value         arrow.Array
	}{
		"sound":        {},
		"throttled":    {"throttled", "throttled", flags(true)},
		"eager":        {"used_cuda_graph", "cuda_graph", flags(false)},
		"scatter":      {"rel_stdev", "unstable", spread(3)},
		"passes":       {"pass_spread", "passes", spread(9)},
		"wrong values": {"relative_error", "numerics", spread(1)},
		"9000 W":       {"power", "limits", spread(9000)},
		"version":      {"version", "provenance", table.Constant("1.2.0", n)},
		"device":       {"device", "provenance", table.Constant("NVIDIA H100 80GB HBM3", n)},
	} {
		data := *of.data
		data.Planned = of.planned
		for column, arr := range sound {
			data.Table = table.WithColumn(data.Table, column, arr)
		}

		if c.column != "" {
			data.Table = table.WithColumn(data.Table, c.column, c.value)
		}

		out, err := pipelineGate(t, "op").Run(t.Context(), &stage.RunContext{Address: "gate.op", Events: silent{},
			Inputs: map[string]*stage.Dataset{"input": &data}})
		must(t, err)

		var got []string
		for _, r := range out.Checks {
			if r.Result == ResultFail {
				got = append(got, r.Name)
			}
		}

		if strings.Join(got, " ") != c.check {
			t.Errorf("%s: %v fail, want %q", name, got, c.check)
		}
	}
}

// TestPublishedTablesPass runs whole published tables through the pipeline as they are.
func TestPublishedTablesPass(t *testing.T) {
	// Defects of the tables; docs/results/published.md describes them.
	known := map[string][]string{
		"attention/vllm/0.18.0/generation_attention_perf": {"repeats"},
		"comm/nccl/2.26.2/nccl_perf":                      {"repeats"},
		"mla/trtllm/1.3.0rc20/generation_mla_perf":        {"trend"},
	}

	wholeTables(t, func(t *testing.T, of *truth) {
		if want := known[strings.TrimSuffix(filepath.ToSlash(of.rel), ".parquet")]; !slices.Equal(of.clean.checks, want) {
			t.Errorf("%v, want %v", of.clean.checks, want)
		}
	})
}
