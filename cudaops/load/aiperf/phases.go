package aiperf

import "errors"

// File is one output file of a run.
type File struct {
	Name, MediaType string
	Data            []byte
}

// Files returns the summary of a run as JSON, CSV and text.
func (r *Report) Files() ([]File, error) {
	js, err := r.JSON()
	table, terr := r.CSV()
	return []File{{SummaryJSON, jsonType, js}, {SummaryCSV, csvType, table},
		{Console, "text/plain", []byte(r.Console())}}, errors.Join(err, terr)
}

const (
	jsonType = "application/json"
	csvType  = "text/csv"
)

// Phases returns the files of the individual phases and their manifest. Like AIPerf, it returns none if
// there was no warm-up phase.
func (r *Report) Phases() ([]File, error) {
	if r.Warmup == nil {
		return nil, nil
	}

	var entries []map[string]any
	var out []File
	for i, p := range []struct {
		name string
		Phase
		cancelled bool
	}{{Warmup, *r.Warmup, false}, {Profiling, r.Phase, r.Cancelled}} {
		part := *r
		part.Phase, part.Cancelled, part.Part = p.Phase, p.cancelled, true
		files, err := part.Files()
		if err != nil {
			return nil, err
		}

		summary, table := files[0], files[1]
		summary.Name, table.Name = PhaseFile(p.name, summary.Name), PhaseFile(p.name, table.Name)
		out = append(out, summary, table)
		e := map[string]any{
			"end_ns": p.To, "error_request_count": p.Summary.Failed, "error_summary": p.Summary.Errors,
			"metrics_csv": Path(table.Name), "metrics_json": Path(summary.Name), "phase_index": i, "phase_kind": p.name,
			"phase_name": p.name, "profiling_index": nil, "start_ns": p.From,
			"successful_request_count": p.Summary.Succeeded, "total_request_count": p.Summary.Requests,
			"was_cancelled": p.cancelled,
		}
		if p.name == Profiling {
			e["profiling_index"] = 0
		}
		entries = append(entries, e)
	}

	raw, err := indented(map[string]any{"phases": entries, "schema_version": 1})
	return append(out, File{Manifest, jsonType, raw}), err
}
