package experiment

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Origin is the source of a field of a card.
type Origin string

// The origins.
const (
	Measured   Origin = "measured"   // read from the machine, the server or its traces
	Configured Origin = "configured" // stated by the plan, the model's configuration or the system's specification
	Default    Origin = "default"    // the template's value
)

// Field is one field of a card: a value with its source. A nil value is null.
type Field struct {
	Value  any
	Source Origin
}

// Card is a workload card in ccl-bench's form. Its keys are the paths of fields, such as
// "workload.data.batch_size". Missing fields get the template's value and the source default.
type Card map[string]Field

// form is the template of cards with its default values.
//
//go:embed card.yaml
var form []byte

// field is a field of the form with its value.
type field struct {
	path  string
	value *yaml.Node
}

// template returns the form and its fields in their order.
func template() (*yaml.Node, []field) {
	var doc yaml.Node
	if err := yaml.Unmarshal(form, &doc); err != nil {
		panic("experiment: card.yaml: " + err.Error())
	}
	return doc.Content[0], fieldsOf("", doc.Content[0])
}

func fieldsOf(prefix string, section *yaml.Node) (out []field) {
	for pair := range slices.Chunk(section.Content, 2) {
		path, value := prefix+pair[0].Value, pair[1]
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			out = append(out, fieldsOf(path+".", value)...)
		} else {
			out = append(out, field{path, value})
		}
	}
	return out
}

// Paths lists the paths of all fields, in their order.
func Paths() (out []string) {
	_, fields := template()
	for _, f := range fields {
		out = append(out, f.path)
	}
	return out
}

// YAML writes the card: every field has a comment with its source.
func (c Card) YAML() []byte {
	var err error
	card, fields := template()
	for _, f := range fields {
		own, ok := c[f.path]
		if ok {
			err = errors.Join(err, f.value.Encode(own.Value))
		}

		if f.value.Kind != yaml.ScalarNode {
			f.value.Style = yaml.FlowStyle
		}
		f.value.LineComment = string(cmp.Or(own.Source, Default))
	}

	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(err, e.Encode(card), e.Close()); err != nil {
		panic("experiment: a workload card: " + err.Error()) // cannot happen for texts, numbers, flags and lists of them
	}
	return b.Bytes()
}
