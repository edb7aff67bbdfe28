package config

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// metaArguments stand in every stage and module block; see splitMeta.
var metaArguments = []string{"depends_on", "description", "enabled", "for_each"}

// Words lists what may be written in the blocks that are no stages, by block,
// and under "stage" what every stage may have: for documentation and
// completion. Runtimes also take the options of their kind.
func Words() stage.Vocabulary {
	out := stage.Vocabulary{
		"aicplan": {"required_version"},
		"module":  {"depends_on", "description", "enabled", "for_each", "source"},
		"output":  {"description", "value"},
		"stage":   metaArguments,
	}
	out.Add("variable", variableSchema)
	for block, body := range map[string]any{"validation": validationDecl{}, "runtime": runtimeBody{}, "system": systemBody{}} {
		for _, name := range stage.TagWords(body)[""] {
			out.Add(block, &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
		}
	}
	return out
}
