package model

import (
	"strings"

	"aicplan/engine/stage"
	"aicplan/systems"
)

// Input is the data of a report.
type Input struct {
	Title string
	Run   Run
	// Finished are the stages in run order.
	Finished []stage.Finished
	// Tables are the datasets to describe, in the order in which they are
	// shown.
	Tables []TableInput
	// Watched are the readings of telemetry during the cases of the tables.
	Watched []Watched
	// Requests are the requests of load points in the tables.
	Requests []Requests
	// System finds a system by name; nil knows none.
	System func(name string) *systems.Spec
}

// MatchReference finds the reference of the same perf table, or op; a single
// reference that names neither fits everything. -1 without one.
func MatchReference(ds *stage.Dataset, references []*stage.Dataset) int {
	if ds == nil {
		return -1
	}

	for i, r := range references {
		if r == nil {
			continue
		}

		if r.Info.Perf != "" && r.Info.Perf == ds.Info.Perf || r.Info.Op != "" && r.Info.Op == ds.Info.Op {
			return i
		}

		if len(references) == 1 && r.Info.Perf == "" && r.Info.Op == "" {
			return i
		}
	}

	return -1
}

// ReferenceName names a reference by its framework and version. It names the stage if the
// compared rows have the same ones, or if they are unknown.
func ReferenceName(ds *stage.Dataset, address string, rows *stage.Dataset) string {
	name := strings.TrimSpace(ds.Info.Framework + " " + ds.Info.Version)
	switch {
	case name == "":
		return address
	case rows != nil && ds.Info.Framework == rows.Info.Framework && ds.Info.Version == rows.Info.Version:
		return address + " (" + name + ")"
	}

	return name
}

// TableInput is one dataset.
type TableInput struct {
	Address string
	Data    *stage.Dataset
	// System overrides the dataset's own; may be nil.
	System *systems.Spec
	// Reference is compared with; may be nil.
	Reference     *stage.Dataset
	ReferenceName string
	// Stale is the reason why the data may not be that of the run, or "".
	Stale string
}
