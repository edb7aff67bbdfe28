package rules

import (
	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/systems"
)

// Work is the least that a row's op must do, whatever kernel does it.
type Work struct {
	Flops float64
	Bytes float64 // of operands and results that pass through memory once
	Dtype string  // in which the op multiplies
}

// bytesOf returns the size of an element in bytes, 0 if it is unknown. Scales of blocks are left out,
// because the result is a lower bound.
func bytesOf(dtype string) (activation, weight float64) {
	switch dtype {
	case "bfloat16", "float16", "half":
		return 2, 2
	case "fp8",
		"fp8_static",
		"fp8_block",
		"fp8_ootb",
		"fp8_e4m3",
		"sq",
		"int8",
		"w4a8_mxfp4_mxfp8",
		"w4a8_mxfp4_mxfp8_trtllm":
		return 1, 1
	case "w4afp8":
		return 1, 0.5
	case "nvfp4":
		return 0.5, 0.5
	case "int8_wo":
		return 2, 1
	case "int4_wo", "nvfp4_wo", "w4a16_nvfp4", "w4a16_mxfp4", "w4a16_mxfp4_cutlass", "w4a16_mxfp4_humming":
		return 2, 0.5
	case "float32":
		return 4, 4
	case "float64":
		return 8, 8
	}
	return 0, 0
}

// reader reads a row's columns for a formula.
type reader struct {
	rec   arrow.Record
	ints  map[string]*table.Col[int64] // nil where the table has none of the type
	words map[string]*table.Col[string]
	row   int
	bad   bool
}

func newReader(rec arrow.Record) *reader {
	return &reader{rec: rec, ints: map[string]*table.Col[int64]{}, words: map[string]*table.Col[string]{}}
}

func (r *reader) num(name string) float64 {
	c, known := r.ints[name]
	if !known {
		c, _ = table.Int64s(r.rec, name)
		r.ints[name] = c
	}
	if c.Null(r.row) || c.Values[r.row] < 0 {
		r.bad = true
		return 0
	}
	return float64(c.Values[r.row])
}

// opt is num with 0 for missing values.
func (r *reader) opt(name string) float64 {
	before := r.bad
	v := r.num(name)
	r.bad = before
	return v
}

func (r *reader) word(name string) string {
	c, known := r.words[name]
	if !known {
		c, _ = table.Strings(r.rec, name)
		r.words[name] = c
	}
	if c.Null(r.row) {
		r.bad = true
		return ""
	}
	return c.Values[r.row]
}

// bytes is bytesOf. A format of unknown size leaves the row without a bound.
func (r *reader) bytes(dtype string) (activation, weight float64) {
	activation, weight = bytesOf(dtype)
	r.bad = r.bad || weight == 0
	return activation, weight
}

// each returns what f returns for every row, or the zero value if the row lacks a column that f needs.
func each[T any](rec arrow.Record, f func(r *reader) T) []T {
	r := newReader(rec)
	out := make([]T, table.Len(rec))
	for i := range out {
		r.row, r.bad = i, false
		if v := f(r); !r.bad {
			out[i] = v
		}
	}
	return out
}

// formulas has the ops whose least work follows from their columns, by table.
var formulas = map[string]func(r *reader) Work{
	"gemm_perf":                 gemmWork,
	"mla_bmm_perf":              mlaBMMWork,
	"context_attention_perf":    contextWork,
	"generation_attention_perf": generationWork,
	"encoder_attention_perf":    encoderWork,
	"generation_mla_perf":       generationMLAWork,
	"context_mla_perf":          contextMLAWork,
}

func gemmWork(r *reader) Work {
	m, n, k, dtype := r.num("m"), r.num("n"), r.num("k"), r.word("gemm_dtype")
	act, weight := r.bytes(dtype)
	result := min(2, max(act, 2)) // quantised products come out in 16 bits
	if act > 2 {
		result = act
	}
	return Work{Flops: 2 * m * n * k, Bytes: act*m*k + weight*n*k + result*m*n, Dtype: dtype}
}

// Latent attention's width: 512 compressed and 64 rotary values per token,
// 128 values per head.
const (
	mlaLatent = 512
	mlaRotary = 64
	mlaHead   = 128
)

func mlaBMMWork(r *reader) Work {
	t, h, dtype := r.num("num_tokens"), r.num("num_heads"), r.word("bmm_dtype")
	act, weight := r.bytes(dtype)
	return Work{Flops: 2 * t * h * mlaHead * mlaLatent, Bytes: weight*h*mlaHead*mlaLatent + act*t*h*mlaHead, Dtype: dtype}
}

// pairs counts the query-key pairs of a causal prefill after a prefix of step tokens, within a window.
func pairs(isl, step, window float64) float64 {
	full := isl*step + isl*(isl+1)/2
	if window <= 0 || window >= isl+step {
		return full
	}
	// The first queries see fewer keys than the window has.
	ramp := max(0, min(isl, window-step))
	seen := ramp*step + ramp*(ramp+1)/2
	return seen + (isl-ramp)*window
}

func contextWork(r *reader) Work {
	b, isl := r.num("batch_size"), r.num("isl")
	h, kv, d := r.num("num_heads"), r.num("num_key_value_heads"), r.num("head_dim")
	if kv == 0 {
		kv = h
	}
	_, cache := r.bytes(r.word("kv_cache_dtype"))
	p := pairs(isl, r.opt("step"), r.opt("window_size"))
	return Work{Flops: 4 * b * h * d * p, Bytes: b * isl * d * (2*2*h + 2*cache*kv), Dtype: r.word("attn_dtype")}
}

func generationWork(r *reader) Work {
	b, h, kv, d := r.num("batch_size"), r.num("num_heads"), r.num("num_key_value_heads"), r.num("head_dim")
	if kv == 0 {
		kv = h
	}
	seq := r.num("isl") + r.num("step")
	if w := r.opt("window_size"); w > 0 {
		seq = min(seq, w)
	}
	dtype := r.word("kv_cache_dtype") // some kernels multiply in the cache's format
	_, cache := r.bytes(dtype)
	return Work{Flops: 4 * b * h * d * seq, Bytes: 2 * cache * b * kv * d * seq, Dtype: dtype}
}

func encoderWork(r *reader) Work {
	b, s, h, d := r.num("batch_size"), r.num("isl"), r.num("num_heads"), r.num("head_dim")
	return Work{Flops: 4 * b * h * d * s * s, Bytes: 4 * 2 * b * s * h * d, Dtype: r.word("attn_dtype")}
}

func generationMLAWork(r *reader) Work {
	b, seq := r.num("batch_size"), r.num("isl")+r.num("step")
	_, cache := r.bytes(r.word("kv_cache_dtype"))
	return Work{
		Flops: 2 * b * r.num("num_heads") * seq * (2*mlaLatent + mlaRotary),
		Bytes: cache * b * seq * (mlaLatent + mlaRotary),
		Dtype: "fp8",
	}
}

func contextMLAWork(r *reader) Work {
	b, isl, h := r.num("batch_size"), r.num("isl"), r.num("num_heads")
	return Work{
		Flops: 2 * b * h * pairs(isl, r.opt("step"), 0) * (2*mlaHead + mlaRotary),
		Bytes: 2 * b * isl * h * mlaHead * 2,
		Dtype: r.word("mla_dtype"),
	}
}

// Works returns the least work of every row of a table, zero if it is unknown. ok is false for tables
// without a formula.
func Works(rec arrow.Record, t *catalog.Table) (works []Work, ok bool) {
	formula, ok := formulas[t.Name]
	if !ok {
		return nil, false
	}
	return each(rec, func(r *reader) Work {
		w := formula(r)
		if w.Flops <= 0 {
			return Work{}
		}
		return w
	}), true
}

// caches are the bytes that kernels may find in the cache, by system. In published tables of these systems, operands
// stay there between executions.
var caches = map[string]float64{"b60": 18 << 20, "l40s": 96 << 20, "rtx_pro_6000_server": 128 << 20}

// SpeedOfLight returns the least time of every row in milliseconds on a system, 0 if it is unknown. Bytes that fit into
// the system's cache need no time. ok is false for tables without a formula.
func SpeedOfLight(rec arrow.Record, t *catalog.Table, spec *systems.Spec) (least []float64, ok bool) {
	works, ok := Works(rec, t)
	if !ok {
		return nil, false
	}
	least = make([]float64, len(works))
	for i, w := range works {
		least[i] = spec.MemorySeconds(max(0, w.Bytes-caches[spec.Name])) * 1000
		if s, known := spec.ComputeSeconds(w.Flops, w.Dtype); known {
			least[i] = max(least[i], s*1000)
		}
	}
	return least, true
}

// overNVLink returns the least time of every collective in milliseconds, 0 if it is unknown: each GPU sends
// its share of the message over its links once, also if switches do the reductions.
func overNVLink(rec arrow.Record, spec *systems.Spec) []float64 {
	if spec.Node.IntraNodeBW <= 0 {
		return nil
	}

	dtype := "nccl_dtype"
	if !table.Has(rec, dtype) {
		dtype = "allreduce_dtype"
	}
	return each(rec, func(r *reader) float64 {
		gpus, elements := r.num("num_gpus"), r.num("message_size")
		width, _ := bytesOf(r.word(dtype))
		share := 0.0
		switch r.word("op_name") {
		case "all_reduce":
			share = 1
		case "all_gather", "reduce_scatter", "alltoall":
			share = (gpus - 1) / gpus
		}

		if gpus <= 1 {
			return 0
		}
		return width * elements * share / spec.Node.IntraNodeBW * 1000
	})
}
