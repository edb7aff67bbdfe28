package gate

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// Defaults returns the checks by name, with what their attributes are when the
// block does not say: pointers to structs with gohcl tags.
func Defaults() map[string]any {
	out := map[string]any{}
	for _, s := range specs() {
		out[s.name] = s.new()
	}
	return out
}

// Words implements stage.Worded: the blocks, and under "check NAME" what each
// check takes in addition to the attributes that all have.
func (c *Config) Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	out.Add("", bodySchema)
	out.Add("check", &hcl.BodySchema{Attributes: commonAttributes})
	out.Add("assert", &hcl.BodySchema{Attributes: assertAttributes})
	for _, s := range specs() {
		out["check "+s.name] = stage.TagWords(s.new())[""]
	}
	return out
}
