package grid

import "github.com/hashicorp/hcl/v2"

// Schemas returns what may be written in a grid and in each of its blocks, ""
// being the grid itself: for documentation and completion.
func Schemas() map[string]*hcl.BodySchema {
	return map[string]*hcl.BodySchema{
		"": gridSchema, "case_set": caseSetSchema, "sweep": sweepSchema, "axis": axisSchema, "rows": axisSchema,
		"derive": deriveSchema, "filter": filterSchema, "distinct": distinctSchema, "part": partSchema,
	}
}
