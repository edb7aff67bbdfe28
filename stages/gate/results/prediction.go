package results

import (
	"encoding/json"

	"aicplan/engine/stage"
)

// Prediction is the detail of the check "prediction": predicted and measured values of workloads.
type Prediction struct {
	Kind      string   `json:"kind"`      // "prediction"
	Predicted string   `json:"predicted"` // stage that has the predictions
	Traces    string   `json:"traces,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Tables    []Table  `json:"tables"`          // the errors by column, and the workloads
	Parts     []Table  `json:"parts,omitempty"` // phases of workloads by class of ops
}

// Table is a table for readers.
type Table struct {
	Title string   `json:"title,omitempty"`
	Note  string   `json:"note,omitempty"`
	Heads []string `json:"heads"`
	Rows  [][]any  `json:"rows"` // texts, numbers, or nil if a value is unknown
	// Texts is the number of first columns that are no numbers.
	Texts int `json:"texts,omitempty"`
}

// Add appends a column: the cell of each row.
func (t *Table) Add(head string, cell func(row int) any) {
	t.Heads = append(t.Heads, head)
	for row := range t.Rows {
		t.Rows[row] = append(t.Rows[row], cell(row))
	}
}

// PredictionOf decodes the detail of a prediction check. It returns false for other checks.
func PredictionOf(c stage.CheckResult) (*Prediction, bool) {
	if len(c.Detail) == 0 {
		return nil, false
	}

	var p Prediction
	if err := json.Unmarshal(c.Detail, &p); err != nil || p.Kind != "prediction" {
		return nil, false
	}
	return &p, true
}
