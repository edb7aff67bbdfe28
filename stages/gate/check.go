package gate

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/sink/physics"
)

// check is one kind of check, decoded from its block by gohcl.
type check interface {
	// prepare validates the limits; r is the range of the block's header.
	prepare(r hcl.Range) hcl.Diagnostics
	run(*subject) finding
}

// referrer is implemented by checks that compare with another dataset.
type referrer interface{ refersTo() *stage.Ref }

// gatherer is implemented by checks that read rows of several datasets.
type gatherer interface{ gathers() []*stage.Ref }

// titled is implemented by checks that may occur several times in a gate. The title names what each of
// them checks.
type titled interface{ title() string }

// spec describes one check for decoding and documentation.
type spec struct {
	name    string
	summary string
	new     func() check
}

func specs() []spec {
	return []spec{
		{"coverage", "share of the planned cases, or of a reference's rows, that have a row",
			func() check { return &coverage{Min: 1} }},
		{"positive", "a column is finite and above zero", func() check { return &positive{} }},
		{"range", "a column lies within limits", func() check { return &rangeCheck{} }},
		{"duplicates", "rows with the same key", func() check { return &duplicates{} }},
		{"schema", "columns, types and dtype words that readers of the perf table need", func() check { return &schema{} }},
		{"provenance", "framework, version and device of every row are those of the data, and a device of the system",
			func() check { return &provenance{} }},
		{"power", "power lies above zero and at most at the board's limit", func() check { return &power{} }},
		{"speed_of_light", "no row is faster than the system's peaks allow", func() check { return &light{Tolerance: 0.05} }},
		{"monotonic", "latency does not fall while an axis grows", func() check { return &trend{Ratio: physics.FallRatio} }},
		{"spikes", "no row stands far above both its neighbours along an axis",
			func() check { return &trend{Ratio: physics.SpikeRatio, spikes: true} }},
		{"throttled", "share of rows measured while the driver throttled", func() check { return &throttled{Max: 0.05} }},
		{"cuda_graph", "share of rows measured without a CUDA graph: short kernels show the host's time",
			func() check { return &cudaGraph{} }},
		{"deviation", "percentiles of the ratio to another dataset", func() check { return &deviation{} }},
		{"composition", "the rows of a layer's parts add up to the layer",
			func() check { return &composition{Column: "latency", Min: 0.97, Max: 1.03} }},
		{"client_saturation", "the client of a load test was not the bottleneck", func() check { return &saturation{} }},
		{"prefix_cache", "prompts were not found in a cache that the load itself warmed",
			func() check { return &prefixCache{Max: 0.05} }},
		{"short_outputs", "share of outputs shorter than asked for", newShortOutputs},
		{"token_mismatch", "share of requests whose tokens server and client count differently", newTokenMismatch},
		{"request_errors", "share of requests that failed", newRequestErrors},
		{"prediction", "what was predicted for workloads is near to what was measured",
			func() check { return &prediction{Columns: []string{"ttft", "tpot"}, P50: 0.05, P95: 0.15} }},
		{"consistency", "figures of a cell that follow from each other do: tokens/s and TPOT, GPUs and ranks, communication, parts of a step, energy", func() check { return &consistency{} }},
		{"noise", "a percentile of the relative standard deviation", func() check { return &noise{Percentile: 95} }},
	}
}
