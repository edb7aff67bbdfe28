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
	case slices.Contains(boolColumns, name):
		c.Type = Bool
	case role == Metric || slices.Contains(doubleColumns, name):
		c.Type = Double
		c.Unit = unitOf(name)
	}
	if slices.Contains(rates, name) || strings.HasSuffix(name, "_gbps") {
		c.Better = Higher
	}
	c.Zero = role == Metric && strings.HasSuffix(name, "_notify_us")
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
	case slices.Contains(serverTimes, name):
		return "ms"
	case name == "request_throughput" || name == "goodput":
		return "requests/s"
	case name == "throughput_per_user":
		return "tokens/s/user"
	case name == "iteration_wall_clock":
		return "s"
	case name == "throughput_tokens_sec":
		return "tokens/s"
	case name == "comm_overhead" || strings.HasSuffix(name, "_pct"):
		return "%"
	case name == "throughput" || strings.HasSuffix(name, "_throughput"):
		return "tokens/s"
	}
	return ""
}

var textColumns = []string{
	"framework", "version", "device", "op_name", "kernel_source",
	"gemm_dtype", "moe_dtype", "attn_dtype", "kv_cache_dtype", "mla_dtype", "gemm_type", "bmm_dtype", "quant_dtype", "quant_type",
	"nccl_dtype", "allreduce_dtype", "comm_dtype",
	"distribution", "phase", "inference_phase", "model", "model_name", "architecture", "score_mode",
	"backend", "implementation", "comm_backend", "moe_kernel", "simulation_mode",
	"kernel_dtype", "source_policy", "pre_dispatch", "buffer_policy",
}

var boolColumns = []string{"includes_routed_scale", "includes_gate_topk", "includes_buffer_init", "used_cuda_graph"}

var doubleColumns = []string{"transmit_us", "notify_us", "request_rate", "routed_scaling_factor"}

// serverTimes are the times of requests, in milliseconds.
var serverTimes = []string{"ttft", "ttst", "itl", "icl", "tpot"}

// rates are metrics of which more is better.
var rates = []string{"request_throughput", "throughput", "input_throughput", "total_throughput", "throughput_per_user", "goodput", "throughput_tokens_sec"}

var docs = map[string]string{
	"framework":              "who ran the kernel",
	"version":                "the framework's version as it reports it",
	"device":                 "the device's name as its driver reports it",
	"op_name":                "the op",
	"kernel_source":          "the kernel or backend that ran",
	"gemm_dtype":             "format of the operands",
	"m":                      "tokens",
	"n":                      "output features",
	"k":                      "input features",
	"batch_size":             "sequences",
	"isl":                    "new tokens per sequence",
	"step":                   "tokens already in the cache",
	"num_heads":              "query heads on this rank",
	"local_num_heads":        "query heads on this rank",
	"num_key_value_heads":    "key/value heads on this rank",
	"head_dim":               "width of a head",
	"window_size":            "sliding window in tokens, 0 without one",
	"beam_width":             "beams, always 1",
	"attn_dtype":             "format in which attention multiplies",
	"kv_cache_dtype":         "format of the cache",
	"mla_dtype":              "format in which latent attention multiplies",
	"gemm_type":              "format of the projections",
	"tp_size":                "tensor-parallel ranks",
	"num_tokens":             "tokens",
	"num_token":              "tokens",
	"hidden_size":            "width of the model",
	"inter_size":             "width of an expert",
	"intermediate_size":      "width of the dense layer",
	"topk":                   "experts per token",
	"num_topk":               "experts per token",
	"num_experts":            "experts of the layer",
	"num_slots":              "expert slots, replicas included",
	"moe_tp_size":            "tensor-parallel ranks of the experts",
	"moe_ep_size":            "expert-parallel ranks",
	"distribution":           "how tokens spread over experts",
	"inference_phase":        "context or generation",
	"phase":                  "context, generation or verify; dispatch, combine or prepare",
	"seq_len":                "tokens per sequence",
	"d_model":                "width of the model, not divided by ranks",
	"d_conv":                 "width of the convolution",
	"d_state":                "width of the state",
	"num_k_heads":            "key heads on this rank",
	"head_k_dim":             "width of a key head",
	"num_v_heads":            "value heads on this rank",
	"head_v_dim":             "width of a value head",
	"nheads":                 "heads",
	"n_groups":               "groups of heads",
	"chunk_size":             "tokens of a scan chunk",
	"num_sites":              "hyper-connection sites of a block",
	"hc_mult":                "residual streams",
	"sinkhorn_iters":         "Sinkhorn iterations",
	"compress_ratio":         "tokens per compressed cache entry",
	"score_mode":             "distribution of the scores that top-k sees",
	"num_gpus":               "ranks",
	"message_size":           "elements",
	"node_num":               "nodes",
	"ep_size":                "expert-parallel ranks",
	"sms":                    "multiprocessors given to communication",
	"latency":                "time of one call, or of one request from its sending to its last token",
	"power":                  "mean board power during the measurement",
	"tensor_parallel_size":   "tensor-parallel ranks of the server",
	"pipeline_parallel_size": "pipeline-parallel ranks of the server",
	"data_parallel_size":     "replicas behind the endpoint",
	"concurrency":            "requests in flight at most",
	"request_rate":           "requests sent in a second",
	"osl":                    "tokens asked for in an answer",
	"turns":                  "messages of a conversation",
	"request_throughput":     "requests that succeeded in a second",
	"throughput":             "tokens generated in a second",
	"input_throughput":       "tokens read in a second",
	"total_throughput":       "tokens read and generated in a second",
	"throughput_per_user":    "tokens that one request gets in a second after its first",
	"goodput":                "requests in a second that kept their limits",
	"ttft":                   "time to the first token",
	"ttst":                   "time from the first to the second token",
	"itl":                    "time between tokens after the first",
	"icl":                    "time between messages",
	"tpot":                   "time for each token after the first",
	"throughput_tokens_sec":  "tokens generated in a second of the iterations",
	"iteration_wall_clock":   "time of a closed batch, from its first request to the end of its last",
	"comm_overhead":          "share of a step in which a collective runs, from the traces",
	"comm_exposed_pct":       "share of a step in which nothing but collectives runs, from the traces",
	"coll_call_num":          "collectives in the traces of all ranks",
	"power_limit":            "board power limit",

	// of dsv4_megamoe_module_perf and trtllm_alltoall_perf
	"num_nodes":                         "nodes; readers count four ranks to a node where a file does not say it",
	"kernel_dtype":                      "formats in which the kernel multiplies: activations, weights",
	"global_num_tokens":                 "tokens of all ranks",
	"source_policy":                     "how tokens spread over the ranks that send them",
	"pre_dispatch":                      "what quantises tokens before they are sent",
	"buffer_policy":                     "whose buffers the kernel exchanges tokens in",
	"routed_scaling_factor":             "what the experts' output is multiplied by",
	"includes_routed_scale":             "the time has that product in it",
	"includes_gate_topk":                "the time has the choice of experts in it",
	"includes_buffer_init":              "the time has the making of the buffers in it",
	"used_cuda_graph":                   "the calls were replayed as a CUDA graph",
	"num_fused_shared_experts":          "shared experts that the kernel runs with the routed ones",
	"num_max_tokens_per_rank":           "tokens that the buffers of one rank are for",
	"effective_num_max_tokens_per_rank": "the same, as the kernel rounds it up",
}
