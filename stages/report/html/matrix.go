package html

import (
	"maps"
	"slices"

	"aicplan/stages/report/model"
)

// coverMatrix is tables against the words that set their rows apart.
type coverMatrix struct {
	Words []string
	Rows  []coverRow
}

type coverRow struct {
	Table *model.Table
	Cells []*model.Share // nil where the table has no such word
}

// matrixOf is nil when no table has words, or when they have too many
// different ones to stand side by side.
func matrixOf(r *model.Report) *coverMatrix {
	all := map[string]bool{}
	for _, t := range r.Tables {
		for _, s := range t.Split {
			all[s.Name] = true
		}
	}

	if len(all) == 0 || len(all) > 14 {
		return nil
	}

	m := &coverMatrix{Words: slices.Sorted(maps.Keys(all))}
	for _, t := range r.Tables {
		if len(t.Split) == 0 {
			continue
		}

		row := coverRow{Table: t, Cells: make([]*model.Share, len(m.Words))}
		for i := range t.Split {
			at, _ := slices.BinarySearch(m.Words, t.Split[i].Name)
			row.Cells[at] = &t.Split[i]
		}

		m.Rows = append(m.Rows, row)
	}

	return m
}
