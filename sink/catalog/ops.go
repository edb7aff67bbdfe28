package catalog

import "slices"

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
var ops = []Op{
	{Name: "gemm", Table: "gemm_perf", OpName: "gemm"},
	{Name: "compute_scale", Table: "computescale_perf", OpName: "compute_scale", Also: "scale_matrix_perf"},
	{Name: "attention_context", Table: "context_attention_perf", OpName: "context_attention"},
	{Name: "attention_generation", Table: "generation_attention_perf", OpName: "generation_attention"},
	{Name: "encoder_attention", Table: "encoder_attention_perf", OpName: "encoder_attention"},
	{Name: "mla_context", Table: "context_mla_perf", OpName: "mla_context"},
	{Name: "mla_generation", Table: "generation_mla_perf", OpName: "mla_generation"},
	{Name: "mla_bmm_gen_pre", Table: "mla_bmm_perf", OpName: "mla_gen_pre"},
	{Name: "mla_bmm_gen_post", Table: "mla_bmm_perf", OpName: "mla_gen_post"},
	{Name: "mla_context_module", Table: "mla_context_module_perf", OpName: "mla_context_module"},
	{Name: "mla_generation_module", Table: "mla_generation_module_perf", OpName: "mla_generation_module"},
	{Name: "moe", Table: "moe_perf", OpName: "moe"},
	{Name: "moe_ep", Table: "moe_expert_compute_perf", OpName: "moe_expert_compute"},
	{Name: "dsv4_megamoe_module", Table: "dsv4_megamoe_module_perf", OpName: "dsv4_megamoe_module"},
	{Name: "gdn", Table: "gdn_perf", OpName: "gdn"},
	{Name: "kda", Table: "kda_perf", OpName: "kda"},
	{Name: "mamba2", Table: "mamba2_perf", OpName: "mamba2"},
	{Name: "mhc_module", Table: "mhc_module_perf"},
	{Name: "dsa_context_module", Table: "dsa_context_module_perf", OpName: "dsa_context_module"},
	{Name: "dsa_generation_module", Table: "dsa_generation_module_perf", OpName: "dsa_generation_module"},
	{Name: "dsa_context_module_skip_indexer", Table: "dsa_context_module_perf", OpName: "dsa_context_module_skip_indexer"},
	{Name: "dsa_generation_module_skip_indexer", Table: "dsa_generation_module_perf", OpName: "dsa_generation_module_skip_indexer"},
	{Name: "msa_context_module", Table: "msa_context_module_perf", OpName: "msa_context_module"},
	{Name: "msa_generation_module", Table: "msa_generation_module_perf", OpName: "msa_generation_module"},
	{Name: "dsv4_csa_context_module", Table: "dsv4_csa_context_module_perf", OpName: "dsv4_csa_context_module"},
	{Name: "dsv4_csa_generation_module", Table: "dsv4_csa_generation_module_perf", OpName: "dsv4_csa_generation_module"},
	{Name: "dsv4_hca_context_module", Table: "dsv4_hca_context_module_perf", OpName: "dsv4_hca_context_module"},
	{Name: "dsv4_hca_generation_module", Table: "dsv4_hca_generation_module_perf", OpName: "dsv4_hca_generation_module"},
	{Name: "dsv4_paged_mqa_logits_module", Table: "dsv4_paged_mqa_logits_module_perf", OpName: "dsv4_paged_mqa_logits_module"},
	{Name: "dsv4_hca_attn_module", Table: "dsv4_hca_attn_module_perf", OpName: "dsv4_hca_attn_module"},
	{Name: "dsv4_csa_topk_calib", Table: "dsv4_csa_topk_calib_perf", OpName: "dsv4_csa_topk_calib"},
	{Name: "glm5_mqa_logits_module", Table: "glm5_mqa_logits_module_perf", OpName: "glm5_mqa_logits_module"},
	{Name: "glm5_topk_module", Table: "glm5_topk_module_perf", OpName: "glm5_topk_module"},
	{Name: "glm5_dsa_attn_module", Table: "glm5_dsa_attn_module_perf", OpName: "glm5_dsa_attn_module"},
	{Name: "all_gather", Table: "nccl_perf", OpName: "all_gather"},
	{Name: "alltoall", Table: "nccl_perf", OpName: "alltoall"},
	{Name: "reduce_scatter", Table: "nccl_perf", OpName: "reduce_scatter"},
	{Name: "all_reduce", Table: "nccl_perf", OpName: "all_reduce"},
	{Name: "custom_allreduce", Table: "custom_allreduce_perf", OpName: "all_reduce"},
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
