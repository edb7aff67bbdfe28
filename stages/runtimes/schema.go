package runtimes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// Options converts the options that a host declares to attributes of plans. Blocks are left out; see Blocks.
func Options(declared []worker.Option) []stage.Option {
	var out []stage.Option
	for _, d := range declared {
		if d.Block != nil {
			continue
		}

		o := stage.Option{
			Name: d.Name, Type: typeOf(d.Into), Doc: d.Doc, Default: d.DefaultText(), OneOf: d.OneOf,
			Check: d.Check, Required: d.Required, Beside: d.NotInKey, Pool: d.Engine,
		}
		switch d.Into.(type) {
		case *worker.Duration, **worker.Duration:
			o.Check = stage.Time
		}
		out = append(out, o)
	}
	return out
}

// Blocks converts the blocks that a host declares.
func Blocks(declared []worker.Option) []stage.Block {
	var out []stage.Block
	for _, d := range declared {
		if d.Block != nil {
			out = append(out, stage.Block{Name: d.Name, Doc: d.Doc, Beside: d.NotInKey, Options: Options(d.Block)})
		}
	}
	return out
}

// Decode sets the variables of options to the values in the block of s. Elements that are null are not
// set.
func Decode(s *stage.Service, declared []worker.Option) error {
	values := map[string]any{}
	for name, v := range s.Options {
		if !v.IsWhollyKnown() {
			return fmt.Errorf("%s of %s is only known after another stage has run; give a value that is known before",
				name, s.Address)
		}

		var err error
		if values[name], err = Plain(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		switch in := values[name].(type) {
		case map[string]any:
			maps.DeleteFunc(in, func(_ string, v any) bool { return v == nil })
		case []any:
			values[name] = slices.DeleteFunc(in, func(v any) bool { return v == nil })
		}
	}
	return worker.Decode(declared, values)
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

// at returns an option, or the member of a block's value at a path, with the types of JSON. It returns nil if it is not
// set or not known yet.
func at(v cty.Value, path ...string) any {
	for _, name := range path {
		if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute(name) {
			return nil
		}
		v = v.GetAttr(name)
	}
	plain, err := Plain(v)
	if err != nil {
		return nil
	}
	return plain
}

func textAt(v cty.Value, path ...string) string {
	text, _ := at(v, path...).(string)
	return text
}

func flagAt(v cty.Value, path ...string) bool {
	flag, _ := at(v, path...).(bool)
	return flag
}

// textsAt returns a list of texts, or nil.
func textsAt(v cty.Value, path ...string) []string {
	list, _ := at(v, path...).([]any)
	var out []string
	for _, e := range list {
		text, _ := e.(string)
		out = append(out, text)
	}
	return out
}
