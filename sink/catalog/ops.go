package catalog

import "slices"

// Op defines the table of an op's rows.
type Op struct {
	Name   string // as in a plan: "attention_context"
	Table  string // "context_attention_perf"
	OpName string `json:"op_name"` // its word in the op_name column; empty when the case says it
	// Also is a second table that the same cases fill, row by row.
	Also string
}

// RowTable is the column of measurements with the perf table of a row, if one case fills
// two tables (Op.Also). It is empty for rows of the op's own table.
const RowTable = "perf_table"

// LookupOp finds an op by its name in a plan. Ops without a published table are not listed:
// a plan may measure any op.
func LookupOp(name string) (Op, bool) {
	for _, o := range builtIn().Ops {
		if o.Name == name {
			return o, true
		}
	}
	return Op{}, false
}

// Ops returns all ops.
func Ops() []Op { return slices.Clone(builtIn().Ops) }
