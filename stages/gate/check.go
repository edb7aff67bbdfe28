package gate

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// check is one kind of check, decoded from its block by gohcl.
type check interface {
	// prepare validates the limits; r is the range of the block's header.
	prepare(r hcl.Range) hcl.Diagnostics
	run(*subject) finding
}

// referrer is implemented by checks that read other datasets. subject.others has them in the same order.
type referrer interface{ refersTo() []*stage.Ref }

// titled is implemented by checks that may occur several times in a gate. The title names what each of
// them checks.
type titled interface{ title() string }

// spec describes one check for decoding and documentation.
type spec struct {
	name string
	new  func() check
}

func specs() []spec {
	return []spec{
		{"coverage", func() check { return &coverage{Min: 1} }},
		{"duplicates", func() check { return &duplicates{} }},
		{"schema", func() check { return &schema{} }},
		{"provenance", func() check { return &provenance{} }},
		{"limits", func() check { return &limits{Tolerance: 0.05} }},
		{"trend", func() check { return &trend{} }},
		{"copies", func() check { return &copies{} }},
		{"rows", func() check { return &rowsCheck{} }},
		{"compare", func() check { return &compare{} }},
		{"composition", func() check { return &composition{Column: "latency", Min: 0.97, Max: 1.03} }},
		{"served", func() check { return &served{MaxTime: 0.25} }},
		{"prediction", func() check { return &prediction{Columns: []string{"ttft", "tpot"}, P50: 0.05, P95: 0.15} }},
	}
}
