// Package stages lists the stage kinds that this program has.
package stages

import (
	"fmt"

	"aicplan/engine/stage"
	"aicplan/stages/dedupe"
	"aicplan/stages/export"
	"aicplan/stages/gate"
	"aicplan/stages/grids"
	"aicplan/stages/importer"
	"aicplan/stages/preflight"
)

// Set is every stage kind, with what they share during a run.
type Set struct {
	kinds map[string]stage.Kind
}

// All makes the set of all kinds. Close it when the run is over.
func All() *Set {
	s := &Set{kinds: map[string]stage.Kind{}}
	for _, k := range []stage.Kind{
		preflight.Kind(preflight.HostChecks()),
		grids.Kind(),
		importer.Kind(),
		dedupe.Kind(),
		gate.Kind(),
		export.Kind(),
	} {
		if _, dup := s.kinds[k.Name]; dup {
			panic(fmt.Sprintf("two stage kinds are called %q", k.Name))
		}
		s.kinds[k.Name] = k
	}
	return s
}

// Kinds returns the kinds by name.
func (s *Set) Kinds() map[string]stage.Kind { return s.kinds }

// Close ends what the kinds share: worker processes kept warm.
func (s *Set) Close() error { return nil }
