package rules

import (
	_ "embed"
	"encoding/csv"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/systems"
)

// modulesCSV has one line per framework, perf table and phase. Its coefficients
// were fitted by non-negative least squares, weighted by latency^-0.75, to the
// H200 tables published for the version in the second column. The sum of the
// fitted latencies is within 20 % of the published sum for 35 of the 46 models.
//
//go:embed modules.csv
var modulesCSV string

// module is the linear cost model of one table: what a whole layer or kernel
// sequence takes, for estimates only.
type module struct {
	framework, table, phase string

	launch                             float64 // microseconds per execution
	tokenHead, pair, pairHead, sparse  float64 // FLOP per unit, at the dense bfloat16 peak
	context, tokenBytes, width, states float64 // bytes per unit, at the memory bandwidth
}

// commonHidden is the hidden size of rows that name only their model.
const commonHidden = 7168

// sparseKeys is how many keys a query of sparse attention reads at most.
const sparseKeys = 2048

var modules = sync.OnceValue(func() []module {
	lines, err := csv.NewReader(strings.NewReader(modulesCSV)).ReadAll()
	if err != nil {
		panic("rules: modules.csv: " + err.Error())
	}

	var out []module
	for _, line := range lines[1:] {
		m := module{framework: line[0], table: line[2], phase: line[3]}
		into := []*float64{
			&m.launch, &m.tokenHead, &m.pair, &m.pairHead, &m.sparse, &m.context, &m.tokenBytes, &m.width, &m.states,
		}
		for i, p := range into {
			v, err := strconv.ParseFloat(line[4+i], 64)
			if err != nil {
				panic("rules: modules.csv: " + err.Error())
			}
			*p = v
		}
		out = append(out, m)
	}
	return out
})

// moduleModels returns the models of a table by phase. It prefers those of the
// framework and falls back to those of the other frameworks.
func moduleModels(table, framework string) map[string]module {
	if table == "dsv4_csa_topk_calib_perf" {
		table = "glm5_topk_module_perf" // the table with the most similar kernels, since no rows of the other are published
	}

	out := map[string]module{}
	for _, m := range modules() {
		if m.table != table {
			continue
		}
		if _, ok := out[m.phase]; !ok || strings.EqualFold(m.framework, framework) {
			out[m.phase] = m
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
		bytes = m.width * r.num("num_tokens") * hidden * r.opt("hc_mult")

	case m.phase != "": // linear attention
		tokens := batch
		if m.phase != "generation" {
			tokens *= r.num("seq_len")
		}
		keys, heads := 2*r.opt("num_k_heads")*r.opt("head_k_dim"), r.opt("num_v_heads")*r.opt("head_v_dim")
		depth := r.opt("head_k_dim")
		if mamba := r.opt("nheads"); mamba > 0 {
			keys, heads, depth = 0, mamba*r.opt("head_dim"), r.opt("d_state")
		}
		bytes = m.width*tokens*(keys+heads) + m.states*batch*heads*depth

	default:
		isl, step, heads := r.num("isl"), r.opt("step"), r.opt("num_heads")
		tokens, queryKeys := batch*isl, batch*pairs(isl, step, 0)
		flops = m.tokenHead*tokens*heads + (m.pair+m.pairHead*heads)*queryKeys +
			m.sparse*tokens*min(isl+step, sparseKeys)*heads
		bytes = m.context*batch*(isl+step) + m.tokenBytes*tokens
	}

	compute, _ := spec.ComputeSeconds(flops, "bfloat16")
	moved := spec.MemorySeconds(bytes)
	return Kernel{Seconds: m.launch*1e-6 + compute + moved, ComputeBound: compute > moved}
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
