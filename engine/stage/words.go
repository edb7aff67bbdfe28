package stage

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

// Vocabulary lists the valid attributes and blocks by the block that contains them: "" is the stage's own body,
// "measure" a block in it, and "check coverage" a block whose label determines its attributes. Names are sorted.
type Vocabulary map[string][]string

// Words returns the vocabulary of a stage, for documentation and completion.
func Words(s Stage) Vocabulary {
	if w, ok := s.(BodyDecoder); ok {
		return w.Words()
	}
	return TagWords(s)
}

// TagWords returns the vocabulary of a struct, or of a pointer to one, from its gohcl tags.
func TagWords(config any) Vocabulary {
	out := Vocabulary{}
	out.addStruct("", reflect.TypeOf(config))
	return out
}

func (v Vocabulary) addStruct(block string, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	schema, _ := gohcl.ImpliedBodySchema(reflect.New(t).Interface())
	v.Add(block, schema)
	for i := range t.NumField() {
		name, kind, _ := strings.Cut(t.Field(i).Tag.Get("hcl"), ",")
		if kind == "block" {
			v.addStruct(name, t.Field(i).Type)
		}
	}
}

// Add adds the names that a schema allows in a block.
func (v Vocabulary) Add(block string, schema *hcl.BodySchema) {
	for _, a := range schema.Attributes {
		v[block] = append(v[block], a.Name)
	}
	for _, b := range schema.Blocks {
		v[block] = append(v[block], b.Type)
	}
	slices.Sort(v[block])
	v[block] = slices.Compact(v[block])
}
