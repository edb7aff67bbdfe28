package gate

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/sink/rules"
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
		{"duplicates", "rows with the same key", func() check { return &duplicates{} }},
		{"schema", "columns, types and dtype words that readers of the perf table need", func() check { return &schema{} }},
		{"provenance", "framework, version, device and kernel of every row are those of the data and of the system",
			func() check { return &provenance{} }},
		{"limits", "times and power are possible on the system: no row is impossibly short, long or hot",
			func() check { return &limits{Tolerance: 0.05} }},
		{"trend", "rows fit to their neighbours along the axes of the table",
			func() check {
				return &trend{Ratio: rules.OutlierRatio, MaxOutliers: rules.OutlierShare,
					FallRatio: rules.FallRatio, MaxFalls: rules.FallShare}
			}},
		{"copies", "no group of rows repeats another group to the last digit", func() check { return &copies{} }},
		{"rows", "a condition over the columns holds for each row, but for a share of them",
			func() check { return &rowsCheck{} }},
		{"compare", "percentiles of the ratio to another dataset", func() check { return &compare{} }},
		{"composition", "the rows of a layer's parts add up to the layer",
			func() check { return &composition{Column: "latency", Min: 0.97, Max: 1.03} }},
		{"prediction", "what was predicted for workloads is near to what was measured",
			func() check { return &prediction{Columns: []string{"ttft", "tpot"}, P50: 0.05, P95: 0.15} }},
	}
}
