// Package roles knows the roles of stages in events that do not say them: those
// of runs before events carried a role.
package roles

import "aicplan/engine/stage"

// known are the kinds that there were at that time. Kinds that came later are
// not added: their events say what they are.
var known = map[string]stage.Role{
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

// Of is the role of a kind by its name.
func Of(kind string) stage.Role { return known[kind] }
