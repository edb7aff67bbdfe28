package config

import (
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// metaArguments are allowed in every stage and module block, see splitMeta.
var metaArguments = []string{"depends_on", "description", "enabled", "for_each"}

// Words returns the allowed names in blocks that are not stages, by block type, and under "stage"
// those that every stage accepts. It is used for documentation and completion. Runtimes also accept
// the options of their kind.
func Words() stage.Vocabulary {
	out := stage.Vocabulary{
		"aicplan": {"required_version"},
		"module":  {"depends_on", "description", "enabled", "for_each", "source"},
		"output":  {"description", "value"},
		"stage":   metaArguments,
	}
	out.Add("variable", variableSchema)
	for block, words := range stage.TagWords(tableBody{}) {
		if block != "" {
			block = "." + block
		}
		out["table"+block] = words
	}
	for block, body := range map[string]any{"validation": validationDecl{}, "runtime": runtimeBody{},
		"system": systemBody{}} {
		for _, name := range stage.TagWords(body)[""] {
			out.Add(block, &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
		}
	}

	return out
}
