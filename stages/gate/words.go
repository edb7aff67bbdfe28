package gate

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// Words implements stage.Worded: the blocks, and under "check NAME" what each
// check takes beside the attributes that all have.
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
