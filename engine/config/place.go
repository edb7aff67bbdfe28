package config

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// byPlace sorts diagnostics by source position, because attributes are stored in maps.
func byPlace(diags hcl.Diagnostics) hcl.Diagnostics {
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Subject.Filename, b.Subject.Filename),
			cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte))
	})
	return diags
}

// subjectName matches the attribute at the start of a diagnostic's detail, either alone or as
// BLOCK.ATTRIBUTE.
var subjectName = regexp.MustCompile(`^([a-z][a-z0-9_]*)(?:\.([a-z][a-z0-9_]*))?(?: |:)`)

// Locate records the instance on the diagnostics of its stage. A diagnostic about the whole block
// is moved to the attribute that its detail begins with.
func (in *Instance) Locate(diags hcl.Diagnostics) hcl.Diagnostics {
	return WithAddress(byPlace(refine(diags, in.decl.body, in.Range)), in.Address)
}

// refine moves diagnostics about the whole block to the attribute or nested block that their detail
// begins with. A stage's Check works on decoded values, which have no source range.
func refine(diags hcl.Diagnostics, body *hclsyntax.Body, block hcl.Range) hcl.Diagnostics {
	for _, d := range diags {
		if d.Subject == nil || *d.Subject != block {
			continue
		}

		if m := subjectName.FindStringSubmatch(d.Detail); m != nil {
			if r, ok := placeOf(body, m[1], m[2]); ok {
				d.Subject = &r
			}
		}
	}
	return diags
}

func placeOf(body *hclsyntax.Body, name, inner string) (hcl.Range, bool) {
	if a, ok := body.Attributes[name]; ok {
		return a.Expr.Range(), true
	}
	var found []hcl.Range
	for _, b := range body.Blocks {
		if b.Type == name {
			if a, ok := b.Body.Attributes[inner]; ok {
				return a.Expr.Range(), true
			}
			return b.DefRange(), true
		}

		if a, ok := b.Body.Attributes[name]; ok {
			found = append(found, a.Expr.Range())
		}
	}

	if len(found) != 1 {
		return hcl.Range{}, false // not found or ambiguous
	}

	return found[0], true
}
