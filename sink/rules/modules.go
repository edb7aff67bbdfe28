package rules

import (
	_ "embed"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/fileutil"
	"aicplan/systems"
)

// modulesJSON has an entry per framework, perf table and phase. Its coefficients
// were fitted by non-negative least squares, weighted by latency^-0.75, to the
// H200 tables published for the version. The sum of the
// fitted latencies is within 20 % of the published sum for 35 of the 46 models.
//
//go:embed modules.json
var modulesJSON []byte

// module is the linear cost model of one table: what a whole layer or kernel
// sequence takes, for estimates only.
type module struct {
	Framework, Table, Phase string

	Launch                             float64 // microseconds per execution
	TokenHead, Pair, PairHead, Sparse  float64 // FLOP per unit, at the dense bfloat16 peak
	Context, TokenBytes, Width, States float64 // bytes per unit, at the memory bandwidth
}

// commonHidden is the hidden size of rows that name only their model.
const commonHidden = 7168

// sparseKeys is how many keys a query of sparse attention reads at most.
const sparseKeys = 2048

var modules = fileutil.Embedded[[]module]("modules.json", modulesJSON)

// moduleModels returns the models of a table by phase. It prefers those of the
// framework and falls back to those of the other frameworks.
func moduleModels(table, framework string) map[string]module {
	if table == "dsv4_csa_topk_calib_perf" {
		table = "glm5_topk_module_perf" // the table with the most similar kernels, since no rows of the other are published
	}

	out := map[string]module{}
	for _, m := range modules() {
		if m.Table != table {
			continue
		}
		if _, ok := out[m.Phase]; !ok || strings.EqualFold(m.Framework, framework) {
			out[m.Phase] = m
		}
	}
	return out
}

// kernel estimates the row that r is at.
func (m module) kernel(r *reader, spec *systems.Spec) Kernel {
	batch, flops, bytes := r.opt("batch_size"), 0.0, 0.0
	switch {
	case r.opt("hc_mult") > 0:
		hidden := r.opt("hidden_size")
		if hidden == 0 {
			hidden = commonHidden
		}
		bytes = m.Width * r.num("num_tokens") * hidden * r.opt("hc_mult")

	case m.Phase != "": // linear attention
		tokens := batch
		if m.Phase != "generation" {
			tokens *= r.num("seq_len")
		}
		keys, heads := 2*r.opt("num_k_heads")*r.opt("head_k_dim"), r.opt("num_v_heads")*r.opt("head_v_dim")
		depth := r.opt("head_k_dim")
		if mamba := r.opt("nheads"); mamba > 0 {
			keys, heads, depth = 0, mamba*r.opt("head_dim"), r.opt("d_state")
		}
		bytes = m.Width*tokens*(keys+heads) + m.States*batch*heads*depth

	default:
		isl, step, heads := r.num("isl"), r.opt("step"), r.opt("num_heads")
		tokens, queryKeys := batch*isl, batch*pairs(isl, step, 0)
		flops = m.TokenHead*tokens*heads + (m.Pair+m.PairHead*heads)*queryKeys +
			m.Sparse*tokens*min(isl+step, sparseKeys)*heads
		bytes = m.Context*batch*(isl+step) + m.TokenBytes*tokens
	}

	compute, _ := spec.ComputeSeconds(flops, "bfloat16")
	moved := spec.MemorySeconds(bytes)
	return Kernel{Seconds: m.Launch*1e-6 + compute + moved, ComputeBound: compute > moved}
}

// likelyModules is Likely for tables of whole modules.
func likelyModules(rec arrow.Record, models map[string]module, spec *systems.Spec) []Kernel {
	return each(rec, func(r *reader) Kernel {
		phase := ""
		if _, ok := models[""]; !ok {
			phase = r.word("phase")
		}

		m, ok := models[phase]
		if !ok {
			m, ok = models["context"]
		}
		if !ok {
			return Kernel{}
		}
		return m.kernel(r, spec)
	})
}

// Fitted reports whether the estimates of a table come from models that were fitted to published rows of
// whole modules. Other kernels of the same module can be many times faster.
func Fitted(table string) bool {
	return formulaOf(table, "") == nil && len(moduleModels(table, "")) > 0
}
