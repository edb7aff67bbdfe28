package preflight

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// Words implements stage.BodyDecoder: under "check NAME" what each check takes besides
// on_fail.
func (c *Config) Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	out.Add("", schema)
	out.Add("check", &hcl.BodySchema{Attributes: checkAttributes})

	for _, k := range c.all {
		out["check "+k.Name] = nil
		out.Add("check "+k.Name, &hcl.BodySchema{Attributes: k.Schema})
	}

	return out
}
