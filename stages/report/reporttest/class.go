package reporttest

import "aicplan/engine/stage"

var classes = map[string]stage.Class{
	"preflight": stage.Guard,
	"grid":      stage.Source,
	"import":    stage.Source,
	"collect":   stage.Measure,
	"dedupe":    stage.Transform,
	"gate":      stage.Check,
	"verify":    stage.Verify,
	"export":    stage.Sink,
	"report":    stage.Report,
	"publish":   stage.Publish,
}

// Class returns the class of a stage kind.
func Class(kind string) stage.Class { return classes[kind] }
