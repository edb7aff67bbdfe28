package aiperf

// File is one output file of a run.
type File struct {
	Name, MediaType string
	Data            []byte
}

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
		js, err := part.JSON()
		if err != nil {
			return nil, err
		}

		table, err := part.CSV()
		if err != nil {
			return nil, err
		}

		names := [2]string{PhaseFile(p.name, SummaryJSON), PhaseFile(p.name, SummaryCSV)}
		out = append(out, File{names[0], "application/json", js}, File{names[1], "text/csv", table})
		e := map[string]any{
			"end_ns": p.To, "error_request_count": p.Summary.Failed, "error_summary": p.Summary.Errors,
			"metrics_csv": Path(names[1]), "metrics_json": Path(names[0]), "phase_index": i, "phase_kind": p.name,
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
	return append(out, File{Manifest, "application/json", raw}), err
}
