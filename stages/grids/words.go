package grids

import (
	"aicplan/engine/grid"
	"aicplan/engine/stage"
)

// Words implements stage.BodyDecoder.
func (s *Stage) Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	for block, schema := range grid.Schemas() {
		out.Add(block, schema)
	}
	return out
}
