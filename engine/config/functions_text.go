package config

import (
	"regexp"
	"strconv"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// widest bounds widths and precisions of format: the library writes a wider number as
// an error of its own into the text.
const widest = 1000

// directives finds the numbers of a format's directives.
var directives = regexp.MustCompile(`%%|%[-+# 0]*(\d*)(?:\.(\d*))?`)

// narrow is a function of the library whose first argument is a format.
func narrow(f function.Function) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(),
		Params:      f.Params(),
		VarParam:    f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if len(args) > 0 && args[0].IsKnown() && !args[0].IsNull() && args[0].Type() == cty.String {
				for _, d := range directives.FindAllStringSubmatch(args[0].AsString(), -1) {
					for _, n := range d[1:] {
						if wide, err := strconv.Atoi(n); n != "" && (err != nil || wide > widest) {
							return cty.NilType, function.NewArgErrorf(0, "%q makes a text of more than %d characters", d[0], widest)
						}
					}
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

var (
	formatFunc     = narrow(stdlib.FormatFunc)
	formatListFunc = narrow(stdlib.FormatListFunc)
)
