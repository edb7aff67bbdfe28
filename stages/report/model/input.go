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

// Compare sets the first reference of the same perf table or op. A single reference that names neither fits
// every table. Stages are the addresses of the references.
func (t *TableInput) Compare(references []*stage.Dataset, stages []string) {
	for i, r := range references {
		if t.Data == nil || r == nil {
			continue
		}

		is, of := r.Info, t.Data.Info
		if is.Perf != "" && is.Perf == of.Perf || is.Op != "" && is.Op == of.Op ||
			len(references) == 1 && is.Perf == "" && is.Op == "" {
			t.Reference, t.ReferenceName = r, referenceName(is, stages[i], of)
			return
		}
	}
}

// referenceName names a reference by its framework and version. It names the stage if the
// compared rows have the same ones, or if they are unknown.
func referenceName(reference stage.Info, address string, rows stage.Info) string {
	name := strings.TrimSpace(reference.Framework + " " + reference.Version)
	switch {
	case name == "":
		return address
	case reference.Framework == rows.Framework && reference.Version == rows.Version:
		return address + " (" + name + ")"
	}

	return name
}

// TableInput is one dataset.
type TableInput struct {
	Address string
	Data    *stage.Dataset
	// Reference is compared with; may be nil.
	Reference     *stage.Dataset
	ReferenceName string
	// Stale is the reason why the data may not be that of the run, or "".
	Stale string
}
