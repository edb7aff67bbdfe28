package catalog

import (
	"cmp"
	"slices"
)

// Op defines the table of an op's rows.
type Op struct {
	Name   string // as in a plan: "attention_context"
	Table  string // "context_attention_perf"
	OpName string // its word in the op_name column; empty when the case says it
	// Also is a second table that the same cases fill, row by row.
	Also string
}

// RowTable is the column of measurements with the perf table of a row, if one case fills
// two tables (Op.Also). It is empty for rows of the op's own table.
const RowTable = "perf_table"

// ops are the ops of the published database.
var ops = slices.Concat(
	[]Op{
		{Name: "compute_scale", Table: "computescale_perf", OpName: "compute_scale", Also: "scale_matrix_perf"},
		{Name: "attention_context", Table: "context_attention_perf", OpName: "context_attention"},
		{Name: "attention_generation", Table: "generation_attention_perf", OpName: "generation_attention"},
		{Name: "mla_bmm_gen_pre", Table: "mla_bmm_perf", OpName: "mla_gen_pre"},
		{Name: "mla_bmm_gen_post", Table: "mla_bmm_perf", OpName: "mla_gen_post"},
		{Name: "moe_ep", Table: "moe_expert_compute_perf", OpName: "moe_expert_compute"},
		{Name: "mhc_module", Table: "mhc_module_perf"},
		{Name: "custom_allreduce", Table: "custom_allreduce_perf", OpName: "all_reduce"},
	},
	opsOf("context_mla_perf", "mla_context"),
	opsOf("generation_mla_perf", "mla_generation"),
	opsOf("dsa_context_module_perf", "dsa_context_module_skip_indexer"),
	opsOf("dsa_generation_module_perf", "dsa_generation_module_skip_indexer"),
	opsOf("nccl_perf", "all_gather", "alltoall", "reduce_scatter", "all_reduce"),
	opsOf("", "gemm", "encoder_attention", "mla_context_module", "mla_generation_module", "moe", "dsv4_megamoe_module",
		"gdn", "kda", "mamba2", "dsa_context_module", "dsa_generation_module", "msa_context_module",
		"msa_generation_module", "dsv4_csa_context_module", "dsv4_csa_generation_module", "dsv4_hca_context_module",
		"dsv4_hca_generation_module", "dsv4_paged_mqa_logits_module", "dsv4_hca_attn_module", "dsv4_csa_topk_calib",
		"glm5_mqa_logits_module", "glm5_topk_module", "glm5_dsa_attn_module"),
)

// opsOf returns ops whose rows have the op's own name. If table is empty, the table has it, too.
func opsOf(table string, names ...string) []Op {
	out := make([]Op, len(names))
	for i, name := range names {
		out[i] = Op{Name: name, Table: cmp.Or(table, name+"_perf"), OpName: name}
	}
	return out
}

// LookupOp finds an op by its name in a plan. Ops without a published table are not listed:
// a plan may measure any op.
func LookupOp(name string) (Op, bool) {
	for _, o := range ops {
		if o.Name == name {
			return o, true
		}
	}
	return Op{}, false
}

// Ops returns all ops.
func Ops() []Op { return slices.Clone(ops) }
