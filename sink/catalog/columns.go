package catalog

// dictionary describes every column of the catalog: a name has the same type, unit and
// meaning in every table.
var dictionary = byName(
	text("framework", "who ran the kernel"),
	text("version", "the framework's version as it reports it"),
	text("device", "the device's name as its driver reports it"),
	text("op_name", "the op"),
	text("kernel_source", "the kernel or backend that ran"),
	text("gemm_dtype", "format of the operands"),
	size("m", "tokens"),
	size("n", "output features"),
	size("k", "input features"),
	number("latency", "ms", "time of one call, or of one request from its sending to its last token"),
	text("quant_dtype", ""),
	size("batch_size", "sequences"),
	size("isl", "new tokens per sequence"),
	size("num_heads", "query heads on this rank"),
	size("num_key_value_heads", "key/value heads on this rank"),
	size("head_dim", "width of a head"),
	size("beam_width", "beams, always 1"),
	text("attn_dtype", "format in which attention multiplies"),
	text("kv_cache_dtype", "format of the cache"),
	size("step", "tokens already in the cache"),
	size("window_size", "sliding window in tokens, 0 without one"),
	text("mla_dtype", "format in which latent attention multiplies"),
	size("tp_size", "tensor-parallel ranks"),
	text("model", ""),
	text("architecture", ""),
	text("gemm_type", "format of the projections"),
	text("bmm_dtype", ""),
	size("num_tokens", "tokens"),
	text("moe_dtype", ""),
	size("hidden_size", "width of the model"),
	size("inter_size", "width of an expert"),
	size("topk", "experts per token"),
	size("num_experts", "experts of the layer"),
	size("moe_tp_size", "tensor-parallel ranks of the experts"),
	size("moe_ep_size", "expert-parallel ranks"),
	text("distribution", "how tokens spread over experts"),
	text("inference_phase", "context or generation"),
	size("num_slots", "expert slots, replicas included"),
	text("phase", "context, generation or verify; dispatch, combine or prepare"),
	text("kernel_dtype", "formats in which the kernel multiplies: activations, weights"),
	size("global_num_tokens", "tokens of all ranks"),
	size("num_fused_shared_experts", "shared experts that the kernel runs with the routed ones"),
	text("source_policy", "how tokens spread over the ranks that send them"),
	text("pre_dispatch", "what quantises tokens before they are sent"),
	size("num_max_tokens_per_rank", "tokens that the buffers of one rank are for"),
	size("effective_num_max_tokens_per_rank", "the same, as the kernel rounds it up"),
	number("routed_scaling_factor", "", "what the experts' output is multiplied by"),
	flag("includes_routed_scale", "the time has that product in it"),
	flag("includes_gate_topk", "the time has the choice of experts in it"),
	text("buffer_policy", "whose buffers the kernel exchanges tokens in"),
	flag("includes_buffer_init", "the time has the making of the buffers in it"),
	flag("used_cuda_graph", "the calls were replayed as a CUDA graph"),
	text("moe_kernel", ""),
	size("dp_num_tokens", ""),
	size("rank0_num_tokens", ""),
	text("simulation_mode", ""),
	text("quant_type", ""),
	size("num_token", "tokens"),
	size("intermediate_size", "width of the dense layer"),
	number("avg_ms", "ms", ""),
	text("nccl_dtype", ""),
	size("num_gpus", "ranks"),
	size("message_size", "elements"),
	text("allreduce_dtype", ""),
	text("backend", ""),
	text("implementation", ""),
	text("comm_backend", ""),
	text("comm_dtype", ""),
	size("ep_size", "expert-parallel ranks"),
	size("node_num", "nodes"),
	size("sms", "multiprocessors given to communication"),
	number("transmit_us", "us", ""),
	number("notify_us", "us", ""),
	size("num_nodes", "nodes; readers count four ranks to a node if a file does not state it"),
	size("num_topk", "experts per token"),
	number("combine_avg_t_us", "us", ""),
	rate("combine_bandwidth_gbps", "GB/s", ""),
	number("dispatch_avg_t_us", "us", ""),
	rate("dispatch_bandwidth_gbps", "GB/s", ""),
	size("dispatch_sms", ""),
	number("dispatch_transmit_us", "us", ""),
	number("dispatch_notify_us", "us", "").orZero(),
	size("combine_sms", ""),
	number("combine_transmit_us", "us", ""),
	number("combine_notify_us", "us", "").orZero(),
	size("seq_len", "tokens per sequence"),
	size("d_model", "width of the model, not divided by ranks"),
	size("d_conv", "width of the convolution"),
	size("num_k_heads", "key heads on this rank"),
	size("head_k_dim", "width of a key head"),
	size("num_v_heads", "value heads on this rank"),
	size("head_v_dim", "width of a value head"),
	text("model_name", ""),
	size("d_state", "width of the state"),
	size("nheads", "heads"),
	size("n_groups", "groups of heads"),
	size("chunk_size", "tokens of a scan chunk"),
	size("num_sites", "hyper-connection sites of a block"),
	size("hc_mult", "residual streams"),
	size("sinkhorn_iters", "Sinkhorn iterations"),
	size("compress_ratio", "tokens per compressed cache entry"),
	size("local_num_heads", "query heads on this rank"),
	text("score_mode", "distribution of the scores that top-k sees"),
	size("tensor_parallel_size", "tensor-parallel ranks of the server"),
	size("pipeline_parallel_size", "pipeline-parallel ranks of the server"),
	size("data_parallel_size", "replicas behind the endpoint"),
	size("concurrency", "requests in flight at most"),
	number("request_rate", "", "requests sent in a second"),
	size("osl", "tokens asked for in an answer"),
	size("turns", "messages of a conversation"),
	rate("request_throughput", "requests/s", "requests that succeeded in a second"),
	rate("throughput", "tokens/s", "tokens generated in a second"),
	rate("input_throughput", "tokens/s", "tokens read in a second"),
	rate("total_throughput", "tokens/s", "tokens read and generated in a second"),
	rate("throughput_per_user", "tokens/s/user", "tokens that one request gets in a second after its first"),
	rate("goodput", "requests/s", "requests in a second that kept their limits"),
	number("ttft", "ms", "time to the first token"),
	number("ttst", "ms", "time from the first to the second token"),
	number("itl", "ms", "time between tokens after the first"),
	number("icl", "ms", "time between messages"),
	number("tpot", "ms", "time for each token after the first"),
	rate("throughput_tokens_sec", "tokens/s", "tokens generated in a second of the iterations"),
	number("iteration_wall_clock", "s", "time of a closed batch, from its first request to the end of its last"),
	number("comm_overhead", "%", "share of a step in which a collective runs, from the traces"),
	number("comm_exposed_pct", "%", "share of a step in which nothing but collectives runs, from the traces"),
	number("coll_call_num", "", "collectives in the traces of all ranks"),
	number("power", "W", "mean board power during the measurement"),
	number("power_limit", "W", "board power limit"), text("component", "the part of the model"),
	text("geometry", "the sizes and formats of the part, as JSON"),
	size("prefix", "tokens already in the cache"),
	size("x", "new tokens"),
	text("measurement_scope", "what the time includes"),
	text("source_sha256", "digest of the collector's code"),
	text("config_sha256", "digest of the model's config"),
	text("runtime_digest", "digest of the container image"),
	size("sample_count", "samples of the latency"),
	text("kv_seed_regime", "content of the cache"),
	text("execution_profile", "part of the decoder that runs"),
	text("wire_dtype", "format in which the values are sent"),
	flag("default_eligible", "the kernel may be a framework's default"),
)

func byName(columns ...Column) map[string]Column {
	out := map[string]Column{}
	for _, c := range columns {
		out[c.Name] = c
	}
	return out
}

func text(name, doc string) Column { return Column{Name: name, Type: UTF8, Doc: doc} }

func flag(name, doc string) Column { return Column{Name: name, Type: Bool, Doc: doc} }

func size(name, doc string) Column { return Column{Name: name, Type: Int64, Doc: doc} }

func number(name, unit, doc string) Column {
	return Column{Name: name, Type: Double, Unit: unit, Doc: doc}
}

func rate(name, unit, doc string) Column {
	return Column{Name: name, Type: Double, Unit: unit, Doc: doc, Better: Higher}
}

func (c Column) orZero() Column {
	c.Zero = true
	return c
}

// list appends groups of columns to the identity columns.
func list(groups ...[]Column) []Column {
	out := role(Identity, "framework", "version", "device", "op_name", "kernel_source")
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

// role looks columns up in the dictionary and gives them a role.
func role(r Role, names ...string) []Column {
	out := make([]Column, len(names))
	for i, name := range names {
		c, ok := dictionary[name]
		if !ok {
			panic("catalog: unknown column " + name)
		}
		c.Role = r
		out[i] = c
	}
	return out
}

func key(names ...string) []Column { return role(Key, names...) }

func optional(names ...string) []Column { return role(Optional, names...) }

func needed(names ...string) []Column { return role(Needed, names...) }

func info(names ...string) []Column { return role(Info, names...) }

func metric(names ...string) []Column { return role(Metric, names...) }

// maybe returns metrics that a row may lack.
func maybe(names ...string) []Column {
	out := metric(names...)
	for i := range out {
		out[i].Lacking = true
	}
	return out
}

// in gives columns another unit than that of the dictionary.
func in(unit string, columns []Column) []Column {
	for i := range columns {
		columns[i].Unit = unit
	}
	return columns
}

var powerColumns = metric("power", "power_limit")

// extraColumns are written if the data has them: most published files lack them.
var extraColumns = info("sample_count", "wire_dtype", "default_eligible")
