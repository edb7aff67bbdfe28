// Package stages lists the stage kinds that this program has.
package stages

import (
	"aicplan/cudaops/nvml"
	"aicplan/engine/stage"
	"aicplan/stages/collect"
	"aicplan/stages/dedupe"
	"aicplan/stages/executors"
	"aicplan/stages/export"
	"aicplan/stages/gate"
	"aicplan/stages/grids"
	"aicplan/stages/importer"
	"aicplan/stages/preflight"
	"aicplan/stages/publish"
	"aicplan/stages/report"
	"aicplan/stages/runtimes"
	"aicplan/stages/telemetry"
	"aicplan/stages/verify"
)

// Set is every stage kind, with what they share during a run.
type Set struct {
	Kinds      map[string]stage.Kind // by name
	pools      *runtimes.Pools
	invocation executors.Invocation
}

// All makes the set of all kinds, for runtimes of the kinds that this program
// has. Close it when the run is over.
func All() *Set { return With(runtimes.Kinds()) }

// With makes the set of all kinds for runtimes of other kinds.
func With(kinds []*runtimes.Kind) *Set {
	s := &Set{Kinds: map[string]stage.Kind{}, pools: runtimes.NewPools(kinds)}
	for _, k := range []stage.Kind{
		preflight.Kind(preflight.Checks(s.pools, nvml.Open)),
		grids.Kind(),
		importer.Kind(),
		collect.Kind(s.pools, &s.invocation),
		dedupe.Kind(),
		gate.Kind(),
		verify.Kind(),
		export.Kind(),
		report.Kind(),
		publish.Kind(),
	} {
		s.Kinds[k.Name] = k
	}

	return s
}

// Runtimes are the kinds of runtimes.
func (s *Set) Runtimes() []stage.RuntimeKind { return runtimes.Registered(s.pools.Kinds) }

// Services are the kinds of blocks that stages refer to and that produce nothing.
func (s *Set) Services() []stage.ServiceKind {
	return []stage.ServiceKind{executors.Kind(), telemetry.Kind()}
}

// Invoked says how the plan was made, for tasks of executors, which make it again.
func (s *Set) Invoked(inv executors.Invocation) { s.invocation = inv }

// LockDevices keeps other runs off the devices that stages of this one measure
// on, until Close.
func (s *Set) LockDevices(locks *runtimes.Locks) { s.pools.Locks = locks }

// Close ends what the kinds share: worker processes kept warm.
func (s *Set) Close() error { return s.pools.Close() }
