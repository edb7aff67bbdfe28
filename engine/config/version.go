package config

import (
	"fmt"

	goversion "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// sniffVersion reads required_version before anything else in a body.
func (l *loader) sniffVersion(body *hclsyntax.Body) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, b := range body.Blocks {
		if b.Type != "aicplan" {
			continue
		}

		for name, a := range b.Body.Attributes {
			if name != "required_version" {
				diags = append(diags, errorAt(a.NameRange, "Unknown attribute",
					"The aicplan block has the attribute required_version only."))
				continue
			}
			v, more := a.Expr.Value(nil)
			diags = append(diags, more...)
			if more.HasErrors() {
				continue
			}

			diags = append(diags, l.checkVersion(a, v)...)
		}
	}

	return diags
}

func (l *loader) checkVersion(a *hclsyntax.Attribute, v cty.Value) hcl.Diagnostics {
	if v.IsNull() || v.Type().FriendlyName() != "string" {
		return hcl.Diagnostics{errorAt(a.Expr.Range(), "Invalid required_version",
			`A constraint in quotes is needed, such as ">= 0.1".`)}
	}
	want, err := goversion.NewConstraint(v.AsString())
	if err != nil {
		return hcl.Diagnostics{errorAt(a.Expr.Range(), "Invalid required_version",
			fmt.Sprintf("%q is no version constraint: %s. Write one such as \">= 0.1\".", v.AsString(), err))}
	}

	have, err := goversion.NewVersion(l.opts.Version)
	if err != nil {
		panic(fmt.Sprintf("the version of this build is no version: %q", l.opts.Version))
	}
	if !want.Check(have.Core()) {
		return hcl.Diagnostics{errorAt(a.Expr.Range(), "Unsupported aicplan version",
			fmt.Sprintf("This plan requires aicplan %s; this is %s. Install a fitting aicplan, or loosen the constraint if you know that the plan works with this one.", v.AsString(), l.opts.Version))}
	}

	return nil
}
