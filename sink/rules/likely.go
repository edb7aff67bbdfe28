package rules

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/systems"
)

// Shares of a system's peaks that kernels usually reach. Large products reach about two thirds of the
// dense peak under the power cap.
const (
	likelyCompute   = 0.65
	likelyAttention = 0.4 // of the multiplications in attention
	likelyMemory    = 0.8 // if the system does not give it
	likelyLink      = 0.8
	linkLatency     = 10e-6
)

// Launch is the time in seconds that Likely adds for the launch of a kernel.
const Launch = 5e-6

// attention has the tables whose products reach likelyAttention.
var attention = []string{"context_attention_perf", "generation_attention_perf", "encoder_attention_perf"}

// likely has formulas that are good enough to estimate a time and too rough to judge a row by. They return
// what an op, or an op of that table, moves and computes.
var likely = map[string]func(r *reader) Work{
	"moe_perf":                   moeWork,
	"moe_expert_compute_perf":    moeWork,
	"wideep_moe_perf":            moeWork,
	"wideep_context_moe_perf":    moeWork,
	"wideep_generation_moe_perf": moeWork,
	"mla_bmm_perf":               likelyBMM,
	"computescale_perf":          quantiseWork,
	"scale_matrix_perf":          quantiseWork,
	"gemm":                       gemmWork,
	"memory":                     func(r *reader) Work { return Work{Bytes: 2 * r.num("size_bytes"), Dtype: "bfloat16"} },
	"elementwise": func(r *reader) Work {
		return Work{Bytes: 2 * 2 * r.num("num_tokens") * r.num("hidden_size"), Dtype: "bfloat16"}
	},
}

// links has the tables and ops that move messages between GPUs.
var links = map[string]bool{
	"nccl_perf": true, "nccl_eager_perf": true, "oneccl_perf": true, "custom_allreduce_perf": true, // tables
	"nccl": true, "custom_allreduce": true, "p2p": true, // ops
}

// moeWork is the work of the up, gate and down projections of the tokens that are routed to the experts of
// this rank.
func moeWork(r *reader) Work {
	tokens, topk, experts := r.num("num_tokens"), r.num("topk"), r.num("num_experts")
	ep, tp := max(1, r.opt("moe_ep_size")), max(1, r.opt("moe_tp_size"))
	dtype := r.word("moe_dtype")
	act, weight := bytesOf(dtype)
	routed := tokens * topk / ep
	size := 3 * r.num("hidden_size") * r.num("inter_size") / tp
	return Work{
		Flops: 2 * routed * size,
		Bytes: weight*min(experts/ep, max(1, routed))*size + act*2*routed*r.num("hidden_size"),
		Dtype: dtype,
	}
}

// likelyBMM adds the bytes of tokens that the product reads and writes.
func likelyBMM(r *reader) Work {
	w := mlaBMMWork(r)
	w.Bytes += 2 * r.num("num_tokens") * r.num("num_heads") * (mlaHead + mlaLatent)
	return w
}

func quantiseWork(r *reader) Work {
	return Work{Bytes: 3 * r.num("m") * r.num("k"), Dtype: "bfloat16"}
}

// Kernel is the estimate of a row.
type Kernel struct {
	// Seconds is the time of the kernels; 0 means unknown.
	Seconds float64
	// ComputeBound is true if the operations take longer than the bytes. Such kernels draw the most power.
	ComputeBound bool
	// Collector is true if a collector runs it, for which several workers of a device prepare cases.
	Collector bool
	// Cold is true if the op is measured with operands from memory.
	Cold bool
}

// Likely estimates the kernels of each row on a system from its peaks and what kernels usually reach of
// them. Seconds is 0 if the row lacks a column. ok is false if no formula covers the op. perf is the name
// of the table, "" for ops without one. framework chooses between fitted models of a module, "" takes any.
func Likely(rec arrow.Record, perf, op, framework string, spec *systems.Spec) (kernels []Kernel, ok bool) {
	if overLinks(perf, op) {
		return likelyLinks(rec, spec)
	}
	formula := formulaOf(perf, op)
	if formula == nil {
		models := moduleModels(perf, framework)
		if len(models) == 0 {
			return nil, false
		}
		return likelyModules(rec, models, spec), true
	}
	memory := spec.GPU.MemBWEmpiricalScalingFactor
	if memory <= 0 {
		memory = likelyMemory
	}
	share := likelyCompute
	if slices.Contains(attention, perf) {
		share = likelyAttention
	}
	return each(rec, func(r *reader) Kernel {
		w := formula(r)
		compute, known := spec.ComputeSeconds(w.Flops, w.Dtype)
		if !known {
			compute, _ = spec.ComputeSeconds(w.Flops, "bfloat16")
		}

		compute, moved := compute/share, spec.MemorySeconds(w.Bytes)/memory
		return Kernel{Seconds: max(compute, moved) + Launch, ComputeBound: compute > moved}
	}), true
}

// Estimates reports whether Likely covers an op.
func Estimates(perf, op string) bool {
	return formulaOf(perf, op) != nil || overLinks(perf, op) || len(moduleModels(perf, "")) > 0
}

// formulaOf returns the formula of a table or else of an op, or nil.
func formulaOf(perf, op string) func(*reader) Work {
	for _, f := range []func(*reader) Work{likely[perf], formulas[perf], likely[op]} {
		if f != nil {
			return f
		}
	}
	return nil
}

func overLinks(perf, op string) bool { return links[perf] || formulaOf(perf, op) == nil && links[op] }

// likelyLinks is Likely for collectives: every GPU sends about the message over its links.
func likelyLinks(rec arrow.Record, spec *systems.Spec) ([]Kernel, bool) {
	if spec.Node.IntraNodeBW <= 0 {
		return nil, false
	}
	const width = 2 // bytes of an element, mostly
	return each(rec, func(r *reader) Kernel {
		elements := r.opt("message_size") + r.opt("bytes")/width
		if elements <= 0 {
			return Kernel{}
		}
		return Kernel{Seconds: linkLatency + width*elements/(likelyLink*spec.Node.IntraNodeBW)}
	}), true
}

// MostGPUs returns the largest number of GPUs that a row needs, 1 if there is no such column.
func MostGPUs(rec arrow.Record) int {
	most := 1.0
	for _, n := range each(rec, func(r *reader) float64 { return r.num("num_gpus") }) {
		most = max(most, n)
	}
	return int(most)
}
