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

	type entry struct {
		EndNS          int64        `json:"end_ns"`
		Errors         int          `json:"error_request_count"`
		ErrorSummary   []ErrorCount `json:"error_summary"`
		CSV            string       `json:"metrics_csv"`
		JSON           string       `json:"metrics_json"`
		Index          int          `json:"phase_index"`
		Kind           string       `json:"phase_kind"`
		Name           string       `json:"phase_name"`
		ProfilingIndex *int         `json:"profiling_index"`
		StartNS        int64        `json:"start_ns"`
		Successful     int          `json:"successful_request_count"`
		Total          int          `json:"total_request_count"`
		Cancelled      bool         `json:"was_cancelled"`
	}

	manifest := struct {
		Phases  []entry `json:"phases"`
		Version int     `json:"schema_version"`
	}{Version: 1}

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
		e := entry{
			EndNS: p.To, Errors: p.Summary.Failed, ErrorSummary: p.Summary.Errors, CSV: Path(names[1]),
			JSON:  Path(names[0]),
			Index: i, Kind: p.name, Name: p.name, StartNS: p.From, Successful: p.Summary.Succeeded,
			Total: p.Summary.Requests, Cancelled: p.cancelled,
		}

		if p.name == Profiling {
			e.ProfilingIndex = new(int)
		}

		manifest.Phases = append(manifest.Phases, e)
	}

	raw, err := indented(manifest)
	return append(out, File{Manifest, "application/json", raw}), err
}
