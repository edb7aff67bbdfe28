package stage

import (
	"errors"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// HCL evaluates a division by zero to infinity, and the remainder by zero to the dividend. A grid
// would measure with these unintended numbers, so both operators return an error instead. HCL
// provides no other hook to change an operator.
func init() {
	hclsyntax.OpDivide.Impl = withoutZero(stdlib.DivideFunc)
	hclsyntax.OpModulo.Impl = withoutZero(stdlib.ModuloFunc)
}

func withoutZero(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(),
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[1].IsKnown() && args[1].RawEquals(cty.Zero) {
				return cty.NilVal, errors.New(
					"division by zero; prevent it with a condition, as in x == 0 ? 0 : y / x")
			}
			return f.Call(args)
		},
	})
}
