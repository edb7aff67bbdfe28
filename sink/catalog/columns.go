package catalog

import (
	"slices"
	"strings"
)

var identityNames = []string{"framework", "version", "device", "op_name", "kernel_source"}

var powerColumns = []Column{describe("power", Metric), describe("power_limit", Metric)}

// describe looks a column up in the dictionary. Columns are whole numbers
// unless listed otherwise.
func describe(name string, role Role) Column {
	c := Column{Name: name, Role: role, Doc: docs[name]}
	switch {
	case slices.Contains(textColumns, name):
		c.Type = UTF8
	case role == Metric || slices.Contains(doubleColumns, name):
		c.Type = Double
		c.Unit = unitOf(name)
	}
	return c
}

func unitOf(name string) string {
	switch {
	case name == "latency" || strings.HasSuffix(name, "_ms"):
		return "ms"
	case strings.HasSuffix(name, "_us"):
		return "us"
	case strings.HasSuffix(name, "_gbps"):
		return "GB/s"
	case name == "power" || name == "power_limit":
		return "W"
	}
	return ""
}

var textColumns = []string{
	"framework", "version", "device", "op_name", "kernel_source",
	"gemm_dtype", "moe_dtype", "attn_dtype", "kv_cache_dtype", "mla_dtype", "gemm_type", "bmm_dtype", "quant_dtype", "quant_type",
	"nccl_dtype", "allreduce_dtype", "comm_dtype",
	"distribution", "phase", "inference_phase", "model", "model_name", "architecture", "score_mode",
	"backend", "implementation", "comm_backend", "moe_kernel", "simulation_mode",
}

var doubleColumns = []string{"transmit_us", "notify_us"}

var docs = map[string]string{
	"framework":           "who ran the kernel",
	"version":             "the framework's version as it reports it",
	"device":              "the device's name as its driver reports it",
	"op_name":             "the op",
	"kernel_source":       "the kernel or backend that ran",
	"gemm_dtype":          "format of the operands",
	"m":                   "tokens",
	"n":                   "output features",
	"k":                   "input features",
	"batch_size":          "sequences",
	"isl":                 "new tokens per sequence",
	"step":                "tokens already in the cache",
	"num_heads":           "query heads on this rank",
	"local_num_heads":     "query heads on this rank",
	"num_key_value_heads": "key/value heads on this rank",
	"head_dim":            "width of a head",
	"window_size":         "sliding window in tokens, 0 without one",
	"beam_width":          "beams, always 1",
	"attn_dtype":          "format in which attention multiplies",
	"kv_cache_dtype":      "format of the cache",
	"mla_dtype":           "format in which latent attention multiplies",
	"gemm_type":           "format of the projections",
	"tp_size":             "tensor-parallel ranks",
	"num_tokens":          "tokens",
	"num_token":           "tokens",
	"hidden_size":         "width of the model",
	"inter_size":          "width of an expert",
	"intermediate_size":   "width of the dense layer",
	"topk":                "experts per token",
	"num_topk":            "experts per token",
	"num_experts":         "experts of the layer",
	"num_slots":           "expert slots, replicas included",
	"moe_tp_size":         "tensor-parallel ranks of the experts",
	"moe_ep_size":         "expert-parallel ranks",
	"distribution":        "how tokens spread over experts",
	"inference_phase":     "context or generation",
	"phase":               "context, generation or verify; dispatch, combine or prepare",
	"seq_len":             "tokens per sequence",
	"d_model":             "width of the model, not divided by ranks",
	"d_conv":              "width of the convolution",
	"d_state":             "width of the state",
	"num_k_heads":         "key heads on this rank",
	"head_k_dim":          "width of a key head",
	"num_v_heads":         "value heads on this rank",
	"head_v_dim":          "width of a value head",
	"nheads":              "heads",
	"n_groups":            "groups of heads",
	"chunk_size":          "tokens of a scan chunk",
	"num_sites":           "hyper-connection sites of a block",
	"hc_mult":             "residual streams",
	"sinkhorn_iters":      "Sinkhorn iterations",
	"compress_ratio":      "tokens per compressed cache entry",
	"score_mode":          "distribution of the scores that top-k sees",
	"num_gpus":            "ranks",
	"message_size":        "elements",
	"node_num":            "nodes",
	"ep_size":             "expert-parallel ranks",
	"sms":                 "multiprocessors given to communication",
	"latency":             "time of one call",
	"power":               "mean board power during the measurement",
	"power_limit":         "board power limit",
}
