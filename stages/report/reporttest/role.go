package reporttest

import "aicplan/engine/stage"

var roles = map[string]stage.Role{
	"preflight": {Guard: true},
	"grid":      {Quiet: true},
	"import":    {Quiet: true, Tabular: true},
	"collect":   {Measures: true, Tabular: true},
	"dedupe":    {Tabular: true},
	"gate":      {Tabular: true, Judges: true},
	"verify":    {Tabular: true, Verifies: true},
	"report":    {Follows: true, Always: true},
	"publish":   {Follows: true},
	"export":    {},
}

// Role returns the role of a stage kind.
func Role(kind string) stage.Role { return roles[kind] }
