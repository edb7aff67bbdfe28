package grid

import "github.com/hashicorp/hcl/v2"

// Schemas returns the schema of a grid (key "") and of each of its blocks, for documentation and
// completion.
func Schemas() map[string]*hcl.BodySchema {
	return map[string]*hcl.BodySchema{
		"": gridSchema, "case_set": caseSetSchema, "sweep": sweepSchema, "axis": axisSchema, "rows": axisSchema,
		"derive": deriveSchema, "filter": filterSchema, "distinct": distinctSchema, "part": partSchema,
	}
}
