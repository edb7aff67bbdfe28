package config

import (
	"aicplan/engine/stage"
)

// metaArguments are allowed in every stage and module block, see splitMeta.
var metaArguments = []string{
	// depends_on (list of references) names stages to wait for without reading from them, such as a preflight. A
	// module means all stages in it.
	"depends_on",
	// description is shown by `aicplan describe`. It changes nothing.
	"description",
	// enabled (bool) is false to take the stage out of the plan, with every stage that has it as its input. The default
	// is true.
	"enabled",
	// for_each (map, object, list or set) makes one instance for each key or string, in this order. Addresses end in
	// `["key"]`; expressions use `each.key` and `each.value`.
	"for_each",
}

// moduleWords are the attributes of a module block. All others are arguments of the module.
var moduleWords = []string{
	// source (string, required) is a path that starts with `./` or `../`, relative to the file. It may use variables and
	// locals.
	"source",
	// depends_on (list of references) is inherited by every stage inside.
	"depends_on",
	// description is text for readers.
	"description",
	// enabled (bool) is false to leave the module out. The default is true.
	"enabled",
	// for_each (map, object, list or set) makes one instance for each key or string.
	"for_each",
}

// outputWords are the attributes of an output block.
var outputWords = []string{
	// value (any, required) is printed after apply. In a module, the caller reads it as `module.NAME.OUTPUT`.
	"value",
	// description is text for readers.
	"description",
}

// Words returns the allowed names in blocks that are not stages, by block type, and under "stage"
// those that every stage accepts. It is used for documentation and completion. Runtimes also accept
// the options of their kind.
func Words() stage.Vocabulary {
	out := stage.Vocabulary{
		"module": moduleWords,
		"output": outputWords,
		"stage":  metaArguments,
	}
	for block, words := range stage.TagWords(tableBody{}) {
		if block != "" {
			block = "." + block
		}
		out["table"+block] = words
	}
	for block, body := range map[string]any{"variable": variableBody{}, "validation": validationDecl{},
		"runtime": stage.Runtime{}, "system": systemBody{}} {
		out[block] = stage.TagWords(body)[""]
	}
	return out
}
