package runtimes

import (
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// optionsOf converts the options that a host declares to attributes of plans. Blocks are left out; see
// blocksOf.
func optionsOf(declared []worker.Option) []stage.Option {
	var out []stage.Option
	for _, d := range declared {
		if d.Block != nil {
			continue
		}

		o := stage.Option{
			Name: d.Name, Type: typeOf(d.Into), Doc: d.Doc, Default: d.DefaultText(), OneOf: d.OneOf,
			Check: d.Check, Required: d.Required, Beside: d.NotInKey, Secret: d.Secret, Pool: d.Engine,
		}
		switch d.Into.(type) {
		case *worker.Duration, **worker.Duration:
			o.Check = stage.Time
		}
		out = append(out, o)
	}
	return out
}

// blocksOf converts the blocks that a host declares.
func blocksOf(declared []worker.Option) []stage.Block {
	var out []stage.Block
	for _, d := range declared {
		if d.Block != nil {
			out = append(out, stage.Block{Name: d.Name, Doc: d.Doc, Beside: d.NotInKey, Options: optionsOf(d.Block)})
		}
	}
	return out
}

// typeOf returns the type in plans of an option that is decoded into a variable. It panics if hosts have no
// such options.
func typeOf(into any) cty.Type {
	switch into.(type) {
	case *string, **string, *worker.Duration, **worker.Duration:
		return cty.String
	case *bool, **bool:
		return cty.Bool
	case *int, **int, *uint64, *float64, **float64:
		return cty.Number
	case *[]string:
		return cty.List(cty.String)
	case *[]int:
		return cty.List(cty.Number)
	case *map[string]string:
		return cty.Map(cty.String)
	case *map[string]float64:
		return cty.Map(cty.Number)
	case *json.RawMessage, *map[string]json.RawMessage, *any:
		return cty.DynamicPseudoType
	}
	panic(fmt.Sprintf("runtimes: an option is decoded into %T", into))
}
