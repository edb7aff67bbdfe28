package gate

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// Defaults returns the checks by name with their default attributes: pointers to structs with gohcl
// tags.
func Defaults() map[string]any {
	out := map[string]any{}
	for _, s := range specs() {
		out[s.name] = s.new()
	}
	return out
}

// Words implements stage.BodyDecoder. It returns the blocks and, under "check NAME", the attributes of each
// check beyond the common ones.
func (c *Config) Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	out.Add("", bodySchema)
	out.Add("check", &hcl.BodySchema{Attributes: commonAttributes})
	out.Add("assert", &hcl.BodySchema{Attributes: assertAttributes})

	for _, s := range specs() {
		out["check "+s.name] = stage.TagWords(s.new())[""]
		if s.name == "rows" {
			out.Add("check rows", &hcl.BodySchema{Attributes: rowsAttributes})
		}
	}
	return out
}
