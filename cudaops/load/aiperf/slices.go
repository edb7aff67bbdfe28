package aiperf

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"
)

// File names of time slices.
const (
	SlicesJSON = "profile_export_aiperf_timeslices.json"
	SlicesCSV  = "profile_export_aiperf_timeslices.csv"
)

// Slice is the summary of the requests that started in a part of a phase, in ns since the Unix epoch. Rates are
// relative to the length of the slice. Quantities over time are those of all requests that were open in it.
type Slice struct {
	From, To int64
	Complete bool // false for the last slice if the phase ended in it
	Summary  *Summary
}

// Slicer distributes records to slices.
type Slicer struct {
	Streaming    bool
	SLO          SLO
	From, Length int64

	list []*Collector
}

// Add adds a record to the slice in which its request started.
func (s *Slicer) Add(r *Record) {
	i := int(max(0, r.Start-s.From) / s.Length)
	for len(s.list) <= i {
		s.list = append(s.list, &Collector{Streaming: s.Streaming, SLO: s.SLO, full: true})
	}
	s.list[i].Add(r)
}

// Slices returns the slices of a phase whose requests are in all. The last slice is that in which the last
// request started. It ends early if all requests have ended.
func (s *Slicer) Slices(all *Collector) []Slice {
	var out []Slice
	for i, c := range s.list {
		from := s.From + int64(i)*s.Length
		to := min(from+s.Length, all.s.To)
		c.s.From, c.s.To, c.w = from, to, all.w
		out = append(out, Slice{From: from, To: to, Complete: to == from+s.Length, Summary: c.Summary()})
	}
	return out
}

// SliceFiles returns the files of time slices.
func SliceFiles(list []Slice, input any) ([]File, error) {
	var entries []map[string]any
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"}}
	for i, s := range list {
		e := map[string]any{"start_ns": s.From, "end_ns": s.To, "is_complete": s.Complete}
		metrics := slices.Clone(s.Summary.Metrics)
		slices.SortStableFunc(metrics, func(a, b Metric) int { return cmp.Compare(a.Tag, b.Tag) })
		for _, m := range metrics {
			e[m.Tag] = entry(m)
			for _, stat := range csvHeader[1:] {
				if v := m.Stats.get(stat); finite(v) {
					rows = append(rows, []string{fmt.Sprint(i), fmt.Sprint(s.From), fmt.Sprint(s.To), m.Name, m.Unit, stat,
						fixed(v)})
				}
			}
		}
		entries = append(entries, e)
	}

	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}

	raw, err := indented(map[string]any{"timeslices": entries, "input_config": input})
	return []File{{SlicesJSON, jsonType, raw}, {SlicesCSV, csvType, b.Bytes()}}, err
}
