package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/sink/base/textutil"
	"aicplan/systems"
)

// Valuer is implemented by stages whose struct tags do not describe the whole block: those with a BodyDecoder,
// those that set defaults later, and grids, which are identified by their cases.
type Valuer interface {
	// Values returns everything that the block was evaluated to, defaults included,
	// by the names of its attributes and blocks, as values for encoding/json. Settings
	// of what the block refers to are left out if they do not shape data.
	Values() map[string]any
}

// Values returns everything that a stage's block was evaluated to, including defaults: attributes and nested
// blocks by their names. A reference to a stage is its address, a reference to a runtime is the runtime's whole
// block, and a reference to a system is its name with a digest of all its fields.
func Values(s Stage) map[string]any {
	if v, ok := s.(Valuer); ok {
		return v.Values()
	}
	return Fields(s)
}

// Identity returns what identifies the data of a stage in addition to its inputs: the values of its block without
// those that the kind lists in Beside.
func Identity(k Kind, s Stage) any {
	return Without(Values(s), k.Beside)
}

// Without returns a copy of v, a result of Values, without the members at the given paths, such as "description"
// or "runtime.devices". A path that starts with "*." applies to every block at that depth.
func Without(v map[string]any, paths map[string]string) map[string]any {
	out := maps.Clone(v)
	for path := range paths {
		cut(out, strings.Split(path, "."))
	}
	return out
}

// cut removes the member at path. It copies the maps and lists on the way first.
func cut(m map[string]any, path []string) {
	if len(path) == 1 {
		delete(m, path[0])
		return
	}
	for name, inner := range m {
		if path[0] == "*" || path[0] == name {
			m[name] = cutIn(inner, path[1:])
		}
	}
}

// cutIn returns a copy of a block, or of a list of blocks, without the member at path. Other values are returned as
// they are.
func cutIn(v any, path []string) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		cut(v, path)
		return v
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = cutIn(v[i], path)
		}
		return v
	}
	return v
}

// Fields returns the values of a struct with gohcl tags, or of a pointer to one, by the names of the tags.
// Attributes that are not set and have no default are left out.
func Fields(config any) map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(config)
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return out
		}
		v = v.Elem()
	}

	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			maps.Copy(out, Fields(v.Field(i).Addr().Interface()))
			continue
		}
		tag, ok := f.Tag.Lookup("hcl")
		if !ok {
			continue
		}
		name, kind, _ := strings.Cut(tag, ",")
		switch field := v.Field(i); kind {
		case "remain", "body", "def_range":
		case "label":
			out[name] = field.Interface()
		case "block":
			if blocks := blocksOf(field); blocks != nil {
				out[name] = blocks
			}
		default:
			if plain := valueOf(field); plain != nil {
				out[name] = plain
			}
		}
	}

	return out
}

func blocksOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() == 0 {
			return nil
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = Fields(v.Index(i).Interface())
		}
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
	}

	return Fields(v.Interface())
}

// valueOf returns a field as a value for encoding/json, or nil if it is not set.
func valueOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		if v.IsNil() {
			return nil
		}
	}

	switch x := v.Interface().(type) {
	case cty.Value:
		return Plain(x)
	case hcl.Expression, *hcl.Attribute:
		panic(fmt.Sprintf("stage: a field of type %T has a meaning that only its stage knows; it must implement Valuer", x))
	}

	if v.Kind() == reflect.Pointer {
		return v.Elem().Interface()
	}
	return v.Interface()
}

// Plain returns a value of a plan for encoding/json, with references as in Values. Null is nil. An unknown value
// is an object that states so.
func Plain(v cty.Value) any { return ToGo(v, plainSpecial) }

// plainSpecial converts the values that JSON cannot represent.
func plainSpecial(v cty.Value) (any, bool) {
	switch {
	case v == cty.NilVal:
		return nil, true
	case v.HasMark(Sensitive):
		return textutil.Redacted, true
	case !v.IsKnown():
		return map[string]any{"unknown": v.Type().FriendlyName()}, true
	case v.IsNull():
		return nil, true
	case IsRef(v):
		return plainRef(v.GetAttr("ref").EncapsulatedValue()), true
	case v.Type().IsCapsuleType():
		return plainRef(v.EncapsulatedValue()), true
	}
	return nil, false
}

// ToGo converts a value for encoding/json. special converts the values that JSON cannot represent, at any depth; it
// returns false for others.
func ToGo(v cty.Value, special func(cty.Value) (any, bool)) any {
	if out, ok := special(v); ok {
		return out
	}

	switch t := v.Type(); {
	case v.IsNull():
		return nil
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		return numberText(v.AsBigFloat())
	case t.IsObjectType() || t.IsMapType():
		out := map[string]any{}
		for name, e := range v.Elements() {
			out[name.AsString()] = ToGo(e, special)
		}
		return out
	}

	out := []any{}
	for _, e := range v.Elements() {
		out = append(out, ToGo(e, special))
	}
	return out
}

func numberText(f *big.Float) json.Number {
	if n, exact := f.Int64(); exact == big.Exact && !f.Signbit() { // most numbers; formatting others is slow
		return json.Number(strconv.FormatInt(n, 10))
	}
	return json.Number(f.Text('f', -1))
}

func plainRef(ref any) any {
	switch r := ref.(type) {
	case *Ref:
		return map[string]any{"stage": r.Address}
	case *Runtime:
		return RuntimeValues(r)
	case *systems.Spec:
		return SystemValue(r)
	}

	return fmt.Sprintf("%T", ref)
}

// SystemValue returns the name of a system spec and a digest of all its fields.
func SystemValue(s *systems.Spec) any {
	if s == nil {
		return nil
	}
	digest, _ := checkpoint.MustKey(s.Object())
	return map[string]any{"system": s.Name, "fields": digest}
}

// RuntimeValues returns all values of a runtime's block by the names of the attributes. Attributes that are not
// set are left out.
func RuntimeValues(rt *Runtime) map[string]any {
	out := Fields(rt)
	maps.DeleteFunc(out, func(_ string, v any) bool {
		field := reflect.ValueOf(v)
		return field.IsZero() || field.Kind() == reflect.Map && field.Len() == 0 // an empty list may mean something else
	})

	if rt.Address != "" {
		out["address"] = rt.Address
	}
	if len(rt.Options) > 0 {
		options := map[string]any{}
		for name, o := range rt.Options {
			options[name] = Plain(o)
		}
		out["options"] = options
	}
	return out
}
